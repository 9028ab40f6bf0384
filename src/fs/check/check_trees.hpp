// SPDX-License-Identifier: Apache-2.0
// Walks the tree of one inode, whatever its bytes are, and visits its leaves from left to right.
//
// Invariant: nothing is read outside of the volume, the walk holds one node for each level, and it
// terminates: heights decrease from node to node, and the visitor refuses a block that it has seen.
#pragma once

#include <string>

#include "fs/check/check_context.hpp"
#include "fs/format/tree.hpp"

namespace warren::check {

/// The owner of the tree, and the identity that its blocks must have.
struct TreeOwner {
    u64 number = 0;
    u32 generation = 0;
    bool takes_any_generation = false;  // the inode is damaged
    bool is_dying = false;              // a directory that is being removed
    format::BlockKind leaf = format::BlockKind::directory_leaf;
    format::BlockKind node = format::BlockKind::directory_node;
};

/// A leaf on the walk. `block` is null if it could not be read; it must not be trusted if not
/// sound.
struct TreeLeaf {
    u64 place = 0;
    u64 low = 0;
    u64 high = 0;
    bool is_sound = false;
    const format::Block* block = nullptr;
};

class TreeVisitor {
 public:
    virtual ~TreeVisitor() = default;
    /// Whether the sound block at `place` may be used; if false, nothing below it is walked.
    virtual bool take(u64 place) = 0;
    virtual void leaf(const TreeLeaf& leaf) = 0;
    /// Reports a flaw. `loses`: what lies below cannot be reached.
    virtual void flaw(const std::string& text, bool loses) = 0;
    /// Whether to end the walk.
    virtual bool is_done() const { return false; }
};

/// Walks the tree whose root is in `inode`.
void walk_tree(Context& context, const TreeOwner& owner, const format::Inode& inode,
               TreeVisitor& visitor);

/// Whether the block is of this kind and owner, with a right CRC.
bool is_sound_block(const Context& context, const format::Block& block, format::BlockKind kind,
                    const TreeOwner& owner, u64 place);

/// Whether a pointer can lead to a block of the volume.
bool is_good_pointer(const Context& context, format::BlockPointer pointer, bool is_indirect);

/// Owner of the tree of `inode`.
TreeOwner tree_owner(const Context& context, u32 ordinal, const format::Inode& inode);

/// Searches all unowned metadata blocks for leaves of the inodes in `owners` (ordinals, rising) and
/// claims them. Adds to context.found_leaves.
void find_leaves(Context& context, const std::vector<u32>& owners);

/// The leaves that find_leaves() found for one inode.
std::span<const FoundLeaf> found_leaves_of(const Context& context, u32 ordinal);

}  // namespace warren::check
