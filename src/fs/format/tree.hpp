// SPDX-License-Identifier: Apache-2.0
// Directories and long extent lists use the same tree: up to 8 pairs of (lowest key, pointer) in
// the inode, below it nodes of up to 252 pairs, and leaves.
//
// Invariant: child i of a node holds the keys in [pair i key, pair i+1 key). The first pair of a
// node has the node's own lowest key; in a directory that is being deleted and has lost nodes, that
// key or a greater one. Nodes at height 1 point to leaves.
#pragma once

#include "fs/format/layout.hpp"

namespace warren::format {

struct TreePair {
    u64 key;
    BlockPointer child;
};
static_assert(sizeof(TreePair) == 16);

inline constexpr u32 node_pairs_max = 252;
inline constexpr u32 tree_height_max = 12;
inline constexpr u32 root_pairs_max = 8;

struct TreeNode {
    BlockHeader header;
    u32 count;
    u32 height;
    u64 zero;
    TreePair pairs[node_pairs_max];
};
static_assert(sizeof(TreeNode) == block_size);

/// A run of a file's blocks in the volume. Holes are gaps between extents.
struct Extent {
    u64 file_block;
    BlockPointer start;
    u32 length;  // in 4 KiB blocks
    u32 flags;
};
static_assert(sizeof(Extent) == 24);

inline constexpr u32 extent_unwritten = 1;  // allocated, reads as zeros
inline constexpr u32 extent_shared = 2;     // other extents may refer to the same blocks
inline constexpr u32 extent_length_max = 1u << 30;
inline constexpr u32 leaf_extents_max = 168;
inline constexpr u32 inline_extents_max = 5;

WARREN_HD constexpr bool is_unwritten(const Extent& extent) {
    return (extent.flags & extent_unwritten) != 0;
}
WARREN_HD constexpr bool is_shared(const Extent& extent) {
    return (extent.flags & extent_shared) != 0;
}

struct ExtentLeaf {
    BlockHeader header;
    u32 count;
    u32 zero;
    u64 zero2;
    Extent extents[leaf_extents_max];
};
static_assert(sizeof(ExtentLeaf) == block_size);

}  // namespace warren::format
