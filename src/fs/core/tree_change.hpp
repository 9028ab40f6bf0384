// SPDX-License-Identifier: Apache-2.0
// How a tree grows: it gets a first leaf or a taller root, or a node or leaf is split. Each call
// makes one such change in one transaction. Changes proceed from the top down, so a parent always
// has room when its child is split. tree_path.hpp removes leaves.
#pragma once

#include "fs/core/tree.hpp"

namespace warren::core {

/// Blocks dirtied for a first leaf or a taller root: those of start_block(), and the inode, which
/// holds the root.
inline constexpr u32 taller_blocks_max = start_blocks_max + 1;
/// Blocks dirtied by a split: those of start_block(), the split block, the array above it, the
/// inode.
inline constexpr u32 split_blocks_max = start_blocks_max + 3;

/// Gives an empty tree its first leaf. Errc::no_entry for a directory that is being deleted: during
/// bulk reclaim (bulk/remove_tree/reclaim_tree.hpp) its root may look empty while it still has
/// leaves.
template <class Team>
WARREN_HD Errc plant_leaf(Operation<Team>& op, const InodeRef& inode, TreeKinds kinds) {
    if (kinds.leaf == BlockKind::directory_leaf) {
        const u64 names = load(op.team, inode.at->entries);
        WARREN_TRY(op.confirm(inode.seen));
        if ((names & format::entries_dying) != 0) return Errc::no_entry;
    }
    WARREN_LET(leaf, reserve_block(op));
    WARREN_TRY(op.will_write(inode.seen));
    WARREN_TRY(op.begin_apply(WARREN_CREDITS(taller_blocks_max)));
    start_block(op, *leaf, kinds.leaf, inode);
    once(op.team, [&] {
        store_pair(inode.at->area.pairs[0], 0, BlockPointer::to(leaf->place));
        relaxed_store(inode.at->area_count, 1);
        relaxed_store(inode.at->height, 1);
    });
    count_tree_blocks(op, inode, kinds, 1);
    op.end_apply();
    return Errc::ok;
}

/// Moves the pairs of a full root into a new node below it.
template <class Team>
WARREN_HD Errc grow_root(Operation<Team>& op, const InodeRef& inode, TreeKinds kinds,
                         const Pairs& root) {
    if (root.height >= tree_height_max) return Errc::no_space;
    WARREN_LET(block, reserve_block(op));
    WARREN_TRY(op.will_write(inode.seen));
    WARREN_TRY(op.begin_apply(WARREN_CREDITS(taller_blocks_max)));
    start_block(op, *block, kinds.node, inode);
    once(op.team, [&] {
        auto* node = reinterpret_cast<TreeNode*>(block->at);
        for (u32 i = 0; i < root.count; ++i)
            copy_pair(node->pairs[i], root.pairs[i]);
        relaxed_store(node->count, root.count);
        relaxed_store(node->height, root.height);
        store_pair(root.pairs[0], 0,
                   BlockPointer::to(block->place, true));
        relaxed_store(inode.at->area_count, 1);
        relaxed_store(inode.at->height, static_cast<u8>(root.height + 1));
    });
    count_tree_blocks(op, inode, kinds, 1);
    op.end_apply();
    return Errc::ok;
}

/// Moves the upper half of the full node `child` into a new node beside it. If `key` is not below
/// the last key, only the last pair moves: insertions in ascending order then leave full nodes.
template <class Team>
WARREN_HD Errc split_node(Operation<Team>& op, const InodeRef& inode, TreeKinds kinds, Pairs above,
                          u32 index, const Pairs& child, u64 key) {
    WARREN_LET(block, reserve_block(op));
    const u64 last = load(op.team, child.pairs[child.count - 1].key);
    const u32 keep = key >= last ? child.count - 1 : child.count / 2;
    WARREN_TRY(op.will_write(above.seen));
    WARREN_TRY(op.will_write(child.seen));
    WARREN_TRY(op.begin_apply(WARREN_CREDITS(split_blocks_max)));
    start_block(op, *block, kinds.node, inode);
    auto* fresh = reinterpret_cast<TreeNode*>(block->at);
    for (u32 i = keep + op.team.lane(); i < child.count; i += Team::width)
        copy_pair(fresh->pairs[i - keep], child.pairs[i]);
    op.team.sync();
    once(op.team, [&] {
        relaxed_store(fresh->count, child.count - keep);
        relaxed_store(fresh->height, child.height);
        insert_pair(inode, above, index + 1, relaxed_load(fresh->pairs[0].key),
                    BlockPointer::to(block->place, true));
        store_count(inode, child, keep);
    });
    op.mark_dirty(child.seen.place);
    op.mark_dirty(place_of(inode, above));
    count_tree_blocks(op, inode, kinds, 1);
    op.end_apply();
    return Errc::ok;
}

/// Splits the leaf of `descent` at the key that `leaf_type` chooses for `key`. If that is key_end,
/// another operation has made room meanwhile, and nothing is done. Requires: the array above has
/// room.
template <class Team, class Leaf>
WARREN_HD Errc split_leaf(Operation<Team>& op, const InodeRef& inode, Leaf leaf_type,
                          Descent& descent, u64 key) {
    WARREN_LET(block, reserve_block(op));
    WARREN_LET(pivot, leaf_type.pivot(op, descent, key));
    WARREN_TRY(op.confirm(descent.leaf_seen));
    if (*pivot == key_end) return Errc::ok;
    WARREN_TRY(op.will_write(descent.above.seen));
    WARREN_TRY(op.will_write(descent.leaf_seen));
    WARREN_TRY(op.begin_apply(WARREN_CREDITS(split_blocks_max)));
    start_block(op, *block, Leaf::kinds.leaf, inode);
    leaf_type.move_upper(op, descent.leaf, block->at, *pivot);
    once(op.team, [&] {
        insert_pair(inode, descent.above, descent.index + 1, *pivot,
                    BlockPointer::to(block->place));
    });
    op.mark_dirty(descent.leaf_seen.place);
    op.mark_dirty(place_of(inode, descent.above));
    count_tree_blocks(op, inode, Leaf::kinds, 1);
    op.end_apply();
    return Errc::ok;
}

/// Makes room for `key`: each call adds a first leaf, makes the root taller or splits one node,
/// until it can split the leaf itself. Errc::retry: one step was taken and another is needed.
template <class Team, class Leaf>
WARREN_HD Errc make_room(Operation<Team>& op, const InodeRef& inode, Leaf leaf_type, u64 key) {
    Result<Pairs> here = root_pairs(op, inode);
    if (!here) return here.code();
    if (here->count == 0) return plant_leaf(op, inode, Leaf::kinds);
    if (here->count == here->max) {
        WARREN_TRY(grow_root(op, inode, Leaf::kinds, *here));
        return Errc::retry;
    }
    Descent descent;
    for (;;) {
        WARREN_TRY(step_down(op, *here, key, descent));
        const u32 height = here->height;
        if (height == 1) {
            WARREN_TRY(require_own_block(op, descent.leaf, descent.leaf_seen,
                                         identity_of(Leaf::kinds.leaf, inode)));
            return split_leaf(op, inode, leaf_type, descent, key);
        }
        here = node_pairs(op, descent.leaf, descent.leaf_seen, identity_of(Leaf::kinds.node, inode),
                          height - 1);
        if (!here) return here.code();
        if (here->count == here->max) {
            WARREN_TRY(
                split_node(op, inode, Leaf::kinds, descent.above, descent.index, *here, key));
            return Errc::retry;
        }
    }
}

}  // namespace warren::core
