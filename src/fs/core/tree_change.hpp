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

/// Puts a new block below the root, which then points to nothing else; `height` is the new height
/// of the root. `fill(block)`, which one lane calls, moves into the block what the root held.
template <class Team, class Fill>
WARREN_HD Errc put_under_root(Operation<Team>& op, const InodeRef& inode, TreeKinds kinds,
                              u32 height, const Fill& fill) {
    const bool is_node = height > 1;
    WARREN_LET(block, reserve_block(op));
    WARREN_TRY(op.will_write(inode.seen));
    WARREN_TRY(op.begin_apply(WARREN_CREDITS(taller_blocks_max)));
    start_block(op, *block, identity_of(is_node ? kinds.node : kinds.leaf, inode));
    once(op.team, [&] {
        fill(block->at);
        store_pair(inode.at->area.pairs[0], 0, BlockPointer::to(block->place, is_node));
        relaxed_store(inode.at->area_count, 1);
        relaxed_store(inode.at->height, static_cast<u8>(height));
    });
    count_tree_blocks(op, inode, kinds, 1);
    op.end_apply();
    return Errc::ok;
}

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
    return put_under_root(op, inode, kinds, 1, [](Block*) {});
}

/// Moves the pairs of a full root into a new node below it.
template <class Team>
WARREN_HD Errc grow_root(Operation<Team>& op, const InodeRef& inode, TreeKinds kinds,
                         const Pairs& root) {
    if (root.height >= tree_height_max) return Errc::no_space;
    return put_under_root(op, inode, kinds, root.height + 1, [&](Block* block) {
        auto* node = reinterpret_cast<TreeNode*>(block);
        for (u32 i = 0; i < root.count; ++i)
            copy_pair(node->pairs[i], root.pairs[i]);
        relaxed_store(node->count, root.count);
        relaxed_store(node->height, root.height);
    });
}

/// Puts a new block behind the block that pair `index` of `above` leads to and `lower` guards.
/// `move(block)` moves the upper part of `lower` into the new block and returns its lowest key.
/// Requires: the array above has room.
template <class Team, class Move>
WARREN_HD Errc put_behind(Operation<Team>& op, const InodeRef& inode, TreeKinds kinds, Pairs above,
                          u32 index, const Seen& lower, const Move& move) {
    const bool is_node = above.height > 1;
    WARREN_LET(block, reserve_block(op));
    WARREN_TRY(op.will_write(above.seen));
    WARREN_TRY(op.will_write(lower));
    WARREN_TRY(op.begin_apply(WARREN_CREDITS(split_blocks_max)));
    start_block(op, *block, identity_of(is_node ? kinds.node : kinds.leaf, inode));
    const u64 key = move(block->at);
    once(op.team, [&] {
        insert_pair(inode, above, index + 1, key, BlockPointer::to(block->place, is_node));
    });
    op.mark_dirty(lower.place);
    op.mark_dirty(place_of(inode, above));
    count_tree_blocks(op, inode, kinds, 1);
    op.end_apply();
    return Errc::ok;
}

/// Moves the upper half of the full node `child` into a new node beside it. If `key` is not below
/// the last key, only the last pair moves: insertions in ascending order then leave full nodes.
template <class Team>
WARREN_HD Errc split_node(Operation<Team>& op, const InodeRef& inode, TreeKinds kinds,
                          const Pairs& above, u32 index, const Pairs& child, u64 key) {
    const u64 last = load(op.team, child.pairs[child.count - 1].key);
    const u32 keep = key >= last ? child.count - 1 : child.count / 2;
    return put_behind(op, inode, kinds, above, index, child.seen, [&](Block* block) {
        auto* fresh = reinterpret_cast<TreeNode*>(block);
        for (u32 i = keep + op.team.lane(); i < child.count; i += Team::width)
            copy_pair(fresh->pairs[i - keep], child.pairs[i]);
        op.team.sync();
        return once(op.team, [&] {
            relaxed_store(fresh->count, child.count - keep);
            relaxed_store(fresh->height, child.height);
            store_count(inode, child, keep);
            return relaxed_load(fresh->pairs[0].key);
        });
    });
}

/// Splits the leaf of `descent` at the key that `leaf_type` chooses for `key`. If that is key_end,
/// another operation has made room meanwhile, and nothing is done. Requires: the array above has
/// room.
template <class Team, class Leaf>
WARREN_HD Errc split_leaf(Operation<Team>& op, const InodeRef& inode, Leaf leaf_type,
                          Descent& descent, u64 key) {
    WARREN_LET(pivot, leaf_type.pivot(op, descent, key));
    WARREN_TRY(op.confirm(descent.leaf_seen));
    if (*pivot == key_end) return Errc::ok;
    return put_behind(op, inode, Leaf::kinds, descent.above, descent.index, descent.leaf_seen,
                      [&](Block* block) {
                          leaf_type.move_upper(op, descent.leaf, block, *pivot);
                          return *pivot;
                      });
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
        if (here->height == 1) {
            WARREN_TRY(require_own_block(op, descent.leaf, descent.leaf_seen,
                                         identity_of(Leaf::kinds.leaf, inode)));
            return split_leaf(op, inode, leaf_type, descent, key);
        }
        here = pairs_below(op, inode, Leaf::kinds, descent);
        if (!here) return here.code();
        if (here->count == here->max) {
            WARREN_TRY(
                split_node(op, inode, Leaf::kinds, descent.above, descent.index, *here, key));
            return Errc::retry;
        }
    }
}

}  // namespace warren::core
