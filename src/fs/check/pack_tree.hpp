// SPDX-License-Identifier: Apache-2.0
// Builds a new tree for a directory or a file's extents: first the leaves from left to right, then
// the levels above them, until the top level fits into the inode.
//
// Invariant: the blocks conform to docs/FORMAT.md, and are unreachable until the root is written.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "fs/format/inode.hpp"
#include "fs/format/layout.hpp"
#include "warren/result.hpp"
#include "warren/volume.hpp"

namespace warren::check {

/// Receives the blocks of a tree.
class BlockSink {
 public:
    virtual ~BlockSink() = default;
    /// Allocates a block; returns its place, or Errc::no_space.
    virtual Result<u64> allocate() = 0;
    /// Receives the contents of a block. Its header has only kind and owner.
    virtual Errc put(u64 place, const format::Block& block) = 0;
};

/// How many entries, extents or pairs a block gets. Less than its capacity leaves room for
/// insertions.
struct PackLimits {
    u32 leaf_entries = 80;
    u32 leaf_extents = format::leaf_extents_max;
    u32 node_pairs = format::node_pairs_max;
    u32 root_pairs = format::root_pairs_max;
};

struct PackedTree {
    format::TreePair pairs[format::root_pairs_max] = {};
    u32 count = 0;
    u32 height = 0;
    u64 blocks = 0;
};

struct PackedEntry {
    u64 key = 0;
    u64 inode = 0;
    u8 type = 0;
    std::string_view name;
};

/// Packs a directory. Requires: keys rise strictly.
Errc pack_directory(std::span<const PackedEntry> entries, Handle owner, BlockSink& sink,
                    PackedTree& tree, const PackLimits& limits = {});

/// Packs the extents of a file. Requires: they are in order and do not overlap.
Errc pack_extents(std::span<const format::Extent> extents, Handle owner, BlockSink& sink,
                  PackedTree& tree, const PackLimits& limits = {});

/// Makes the area of an inode one of this kind, all zeros, with `count` pairs or extents.
void start_area(format::Inode& inode, format::AreaKind kind, u64 count = 0, u32 height = 0);

/// Puts the root of a tree into an inode.
void set_root(format::Inode& inode, const PackedTree& tree);

}  // namespace warren::check
