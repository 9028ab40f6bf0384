// SPDX-License-Identifier: Apache-2.0
// Walks the tree of one inode, which may contain any bytes, and visits its leaves from left to
// right.
//
// Invariant: nothing outside of the volume is read; one node of each level is in memory; and the
// walk terminates, because heights decrease from node to node and the visitor refuses a block that
// it has seen before.
#pragma once

#include <functional>
#include <string>
#include <unordered_set>

#include "fs/check/check_context.hpp"
#include "fs/format/tree.hpp"

namespace warren::check {

/// Behind all keys of a tree.
inline constexpr u64 key_end = ~u64{0};

/// A leaf on the walk; its keys must lie in [low, high). `block` is null if it could not be read,
/// and may contain any bytes if `is_sound` is false.
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
    /// Called for each sound block; false if the block at `place` must not be used, because it was
    /// seen before or has another owner. Then nothing below it is visited. A visitor that claims no
    /// blocks takes each once.
    virtual bool take(u64 place) { return seen_.insert(place).second; }
    virtual void leaf(const TreeLeaf& leaf) = 0;
    /// Called for each flaw. `loses`: the tree below it cannot be reached.
    virtual void flaw(const std::string& /*text*/, bool /*loses*/) {}
    /// Whether to end the walk.
    virtual bool is_done() const { return false; }

 private:
    std::unordered_set<u64> seen_;
};

/// Walks the tree of the inode `ordinal`, whose root is in `inode`, its copy.
void walk_tree(Context& context, u32 ordinal, const format::Inode& inode, TreeVisitor& visitor);

/// Claims the block of an inode that `pointer` leads to. False if the block does not have this
/// kind, is not sound or not right(block), or has another owner.
bool claim_own_block(Context& context, u32 ordinal, const format::Inode& inode,
                     format::BlockPointer pointer, format::BlockKind kind,
                     const std::function<bool(const format::Block&)>& is_right);

/// Checks the block of extended attributes that any inode may have. Returns the number of blocks
/// that it owns: 0 or 1. A repair drops a damaged one as a whole, because half of an access control
/// list is worse than none.
u64 check_attributes(Context& context, u32 ordinal, const format::Inode& inode);

/// Searches all metadata blocks without an owner for leaves of the inodes in `owners` (ordinals,
/// rising), claims them and adds them to context.found_leaves.
void find_leaves(Context& context, const std::vector<u32>& owners);

/// The leaves that find_leaves() found for one inode.
std::span<const OwnedLeaf> found_leaves_of(const Context& context, u32 ordinal);

}  // namespace warren::check
