// SPDX-License-Identifier: Apache-2.0
// Rebuilding a directory. Its leaves are in hash order already, so packing moves entries from a
// leaf into the free space of the leaf before it, and pairs from a node into the node before it.
// Each move is a small transaction on two neighbours and the array above them; readers and writers
// may run at the same time.
//
// A node whose first key differs from the key that leads to it is damaged: names between the two
// keys are found only while their leaf is the node's first one. The pairs of such a node are not
// moved.
//
// Invariant: no entry changes its key, so listings that are in progress stay right.
#pragma once

#include "fs/core/directory.hpp"

namespace warren::ops {

using namespace warren::core;

/// A packed leaf keeps an eighth of its slots free, so that the next few names do not split it.
inline constexpr u32 packed_entries = format::leaf_entries_max * 7 / 8;
inline constexpr u32 packed_heap_bytes = format::leaf_heap_bytes * 7 / 8 / 8 * 8;

/// Blocks that a step of packing marks dirty: the block that is filled, the array above, and the
/// block that is emptied or, if that is freed, a block of the frame table and the inode.
inline constexpr u32 pack_blocks_max = 4;
/// Blocks that lower_root() marks dirty: the inode and a block of the frame table.
inline constexpr u32 lower_root_blocks_max = 2;

/// Where packing continues, and whether it is finished.
struct Packed {
    u64 next_key = 0;
    bool is_done = false;
};

/// The next pair in the same array, with its child pinned and observed.
struct Neighbour {
    u32 index = 0;
    u64 key = 0;
    Block* block = nullptr;
    Seen seen;
};

template <class Team>
WARREN_HD Errc right_neighbour(Operation<Team>& op, const Pairs& above, u32 index,
                               Neighbour& right) {
    right.index = index + 1;
    right.key = load(op.team, above.pairs[right.index].key);
    const BlockPointer left{load(op.team, above.pairs[index].child.raw)};
    const BlockPointer child{load(op.team, above.pairs[right.index].child.raw)};
    WARREN_TRY(observe_child(op, above.seen, child, right.seen));
    // If both pairs lead to the same block, the volume is damaged, and packing would move the block
    // into itself.
    if (child.offset() == left.offset()) return Errc::corrupt;
    WARREN_LET(block, op.pin(child.offset()));
    right.block = *block;
    return Errc::ok;
}

/// The slot of the lowest key in a leaf; slot_none if the leaf is empty. One lane.
WARREN_HD inline u32 lowest_slot(const DirectoryLeaf& leaf) {
    u32 best = slot_none;
    u64 best_key = key_end;
    for (u32 i = 0; i < format::leaf_entries_max; ++i) {
        if (read_slot(leaf, i).inode() == 0) continue;
        const u64 key = read_key(leaf, i);
        if (key >= best_key) continue;
        best_key = key;
        best = i;
    }
    return best;
}

/// Moves the lowest entries of `from` to `to` while they fit; returns the lowest key that remains,
/// or key_end if none does. One lane, with both leaves locked.
WARREN_HD inline u64 move_lowest(DirectoryLeaf& from, DirectoryLeaf& to) {
    compact_leaf(to);
    u32 free_slot = 0;
    for (;;) {
        const u32 slot = lowest_slot(from);
        if (slot == slot_none) return key_end;
        const u32 size = padded(read_slot(from, slot).name_length());
        const bool fits = relaxed_load(to.count) < packed_entries &&
                          relaxed_load(to.heap_used) + size <= packed_heap_bytes;
        if (!fits) return read_key(from, slot);
        while (read_slot(to, free_slot).inode() != 0)
            ++free_slot;
        copy_entry(from, slot, to, free_slot);
        erase_in_leaf(from, slot);
    }
}

/// Whether the lowest entry of `right` fits into `left` without exceeding the limits of a packed
/// leaf. True if `right` is empty.
template <class Team>
WARREN_HD bool wants_more(Operation<Team>& op, const DirectoryLeaf& left,
                          const DirectoryLeaf& right) {
    return once(op.team, [&] {
        const u32 slot = lowest_slot(right);
        const u32 size = slot == slot_none ? 0 : padded(read_slot(right, slot).name_length());
        return slot == slot_none || (relaxed_load(left.count) < packed_entries &&
                                     relaxed_load(left.heap_live) + size <= packed_heap_bytes);
    });
}

/// Ends a step that has moved what comes first in `right` to the block of `descent`. If `right` is
/// empty now, it is freed; otherwise `next` is its lowest key. The next step begins at `next`.
template <class Team>
WARREN_HD Packed end_pack(Operation<Team>& op, const InodeRef& directory, Descent& descent,
                          const Neighbour& right, bool is_empty, u64 next) {
    once(op.team, [&] {
        if (is_empty) {
            erase_pairs(directory, descent.above, right.index, right.index + 1);
        } else {
            relaxed_store(descent.above.pairs[right.index].key, next);
        }
    });
    op.mark_dirty(descent.leaf_seen.place);
    op.mark_dirty(place_of(directory, descent.above));
    if (is_empty) {
        free_metadata(op, right.seen.place);
        count_tree_blocks(op, directory, directory_tree, -1);
    } else {
        op.mark_dirty(right.seen.place);
    }
    op.end_apply();
    return {next, false};
}

/// Fills the leaf that covers `key` from the next leaf below the same node.
template <class Team>
WARREN_HD Result<Packed> pack_leaves(Operation<Team>& op, const InodeRef& directory, u64 key) {
    Descent descent;
    WARREN_TRY(descend(op, directory, directory_tree, key, descent));
    Packed packed;
    packed.next_key = descent.upper;
    packed.is_done = descent.empty || descent.upper == key_end;
    if (descent.empty || descent.index + 1 >= descent.above.count) return packed;
    Neighbour right;
    WARREN_TRY(right_neighbour(op, descent.above, descent.index, right));
    WARREN_TRY(require_own_block(op, right.block, right.seen,
                                 identity_of(directory_tree.leaf, directory)));
    auto& left_leaf = *reinterpret_cast<DirectoryLeaf*>(descent.leaf);
    auto& right_leaf = *reinterpret_cast<DirectoryLeaf*>(right.block);
    const bool moves = wants_more(op, left_leaf, right_leaf);
    WARREN_TRY(op.confirm(descent.leaf_seen));
    WARREN_TRY(op.confirm(right.seen));
    if (!moves) return packed;
    WARREN_TRY(op.will_write(descent.above.seen));
    WARREN_TRY(op.will_write(descent.leaf_seen));
    WARREN_TRY(op.will_write(right.seen));

    WARREN_TRY(op.begin_apply(WARREN_CREDITS(pack_blocks_max)));
    const u64 rest = once(op.team, [&] { return move_lowest(right_leaf, left_leaf); });
    const bool is_empty = rest == key_end;
    return end_pack(op, directory, descent, right, is_empty, is_empty ? key : rest);
}

/// Descends to the node at `height` that covers `key`: `descent.leaf` is its block, `descent.above`
/// the array above it. Requires: 1 <= height < height of the root.
template <class Team>
WARREN_HD Result<Pairs> descend_to(Operation<Team>& op, const InodeRef& directory, u64 key,
                                   u32 height, Descent& descent) {
    descent = Descent{};
    Result<Pairs> here = root_pairs(op, directory);
    while (here && here->height > height) {
        WARREN_TRY(step_down(op, *here, key, descent));
        here = pairs_below(op, directory, directory_tree, descent);
    }
    return here;
}

/// Errc::corrupt unless the first key of the node is `key`, the key of the pair that leads to it.
template <class Team>
WARREN_HD Errc require_first_key(Operation<Team>& op, const Pairs& node, u64 key) {
    const u64 first = load(op.team, node.pairs[0].key);
    WARREN_TRY(op.confirm(node.seen));
    return first == key ? Errc::ok : Errc::corrupt;
}

/// Fills the node at `height` that covers `key` from the next node below the same node.
template <class Team>
WARREN_HD Result<Packed> pack_nodes(Operation<Team>& op, const InodeRef& directory, u32 height,
                                    u64 key) {
    WARREN_LET(root, root_pairs(op, directory));
    Packed packed{key_end, true};
    if (root->height <= height) return packed;
    Descent descent;
    Result<Pairs> left = descend_to(op, directory, key, height, descent);
    if (!left) return left.code();
    packed = {descent.upper, descent.upper == key_end};
    if (descent.index + 1 >= descent.above.count) return packed;
    Neighbour beside;
    WARREN_TRY(right_neighbour(op, descent.above, descent.index, beside));
    Result<Pairs> right = node_pairs(op, beside.block, beside.seen,
                                     identity_of(directory_tree.node, directory), height);
    if (!right) return right.code();
    WARREN_TRY(require_first_key(op, *right, beside.key));
    const u32 room = left->max - left->count;
    const u32 moved = right->count < room ? right->count : room;
    if (moved == 0) return packed;
    WARREN_TRY(op.will_write(descent.above.seen));
    WARREN_TRY(op.will_write(left->seen));
    WARREN_TRY(op.will_write(right->seen));

    WARREN_TRY(op.begin_apply(WARREN_CREDITS(pack_blocks_max)));
    const bool is_empty = moved == right->count;
    const u64 next = once(op.team, [&] {
        for (u32 i = 0; i < moved; ++i)
            copy_pair(left->pairs[left->count + i], right->pairs[i]);
        store_count(directory, *left, left->count + moved);
        if (is_empty) return key;
        const u64 first = relaxed_load(right->pairs[moved].key);
        erase_pairs(directory, *right, 0, moved);
        relaxed_store(right->pairs[0].key, first);
        return first;
    });
    return end_pack(op, directory, descent, beside, is_empty, next);
}

/// If the root has only one node below it and room for that node's pairs, moves them into the root
/// and frees the node. Returns whether it did.
template <class Team>
WARREN_HD Result<bool> lower_root(Operation<Team>& op, const InodeRef& directory) {
    WARREN_LET(root, root_pairs(op, directory));
    if (root->height < 2 || root->count != 1) return false;
    Descent descent;
    WARREN_TRY(step_down(op, *root, 0, descent));
    WARREN_LET(node, pairs_below(op, directory, directory_tree, descent));
    WARREN_TRY(require_first_key(op, *node, 0));
    if (node->count > root->max) return false;
    WARREN_TRY(op.will_write(directory.seen));
    WARREN_TRY(op.will_write(node->seen));

    WARREN_TRY(op.begin_apply(WARREN_CREDITS(lower_root_blocks_max)));
    once(op.team, [&] {
        for (u32 i = 0; i < node->count; ++i)
            copy_pair(root->pairs[i], node->pairs[i]);
        store_count(directory, *root, node->count);
        relaxed_store(directory.at->height, static_cast<u8>(root->height - 1));
    });
    free_metadata(op, node->seen.place);
    count_tree_blocks(op, directory, directory_tree, -1);
    op.end_apply();
    return true;
}

}  // namespace warren::ops
