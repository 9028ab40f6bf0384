// SPDX-License-Identifier: Apache-2.0
// Freeing the blocks of a removed inode: in the transaction that removes it if they are few,
// otherwise step by step while the inode is in the orphan directory.
//
// Invariant: after each step the inode agrees with what is left of it, so its removal can continue
// from there at any time, also after a crash.
#pragma once

#include "fs/core/attribute_block.hpp"
#include "fs/ops/cut.hpp"
#include "fs/ops/removal_rules.hpp"

namespace warren::ops {

inline constexpr u32 locks_beside_leaves = 10;  // for the operation that removes the directory
/// The greatest number of metadata blocks that release_contents() dirties, without the inode's
/// block: blocks of the frame table, for extents or leaves and for the attribute block.
inline constexpr u32 release_blocks_max = release_tables_max + 1;
static_assert(format::root_pairs_max <= release_tables_max);  // leaves that are freed in one step
/// How many blocks release_leaves() dirties if it frees this many leaves: the array above them, the
/// inode, and for each leaf its block of the frame table.
WARREN_HD constexpr u32 release_leaves_dirties(u32 leaves) {
    return 2 + leaves;
}
static_assert(release_leaves_dirties(locks_max) <= journal_room_min);

/// Notes for writing the leaves of a directory whose root points directly to leaves. False if they
/// are too many for the locks.
template <class Team>
WARREN_HD Result<bool> note_leaves(Operation<Team>& op, const InodeRef& inode) {
    WARREN_LET(root, root_pairs(op, inode));
    if (!op.has_lock_room(root->count + locks_beside_leaves)) return false;
    for (u32 i = 0; i < root->count; ++i) {
        const BlockPointer leaf{load(op.team, root->pairs[i].child.raw)};
        Seen seen;
        WARREN_TRY(observe_child(op, inode.seen, leaf, seen));
        WARREN_TRY(op.will_write(seen));
    }
    return true;
}

/// Whether release_contents() may free all that `inode` holds. If not, the inode becomes an orphan,
/// and release_contents_step() frees its contents. Part of a plan: leaves of a directory are noted
/// for writing; the caller notes the inode.
template <class Team>
WARREN_HD Result<bool> releases_in_one_step(Operation<Team>& op, const InodeRef& inode) {
    const FreeCost cost =
        once(op.team, [&] { return cost_of_contents(op.store, inode, InodeParts(*inode.at)); });
    WARREN_TRY(op.confirm(inode.seen));
    if (cost == FreeCost::damaged) return Errc::corrupt;
    return cost == FreeCost::leaves ? note_leaves(op, inode)
                                    : Result<bool>(cost == FreeCost::light);
}

/// Frees a metadata block to which the inode pointed. Only within apply.
template <class Team>
WARREN_HD void free_pointed(Operation<Team>& op, u64 pointer) {
    free_metadata(op, BlockPointer{pointer}.offset());
}

/// Frees all blocks of an inode that this apply removes: contents, attributes, a long link target.
/// The inode itself is not changed. Only within apply. Requires: releases_in_one_step() returned
/// true in this operation's plan.
template <class Team>
WARREN_HD void release_contents(Operation<Team>& op, const InodeRef& inode) {
    const auto kind = static_cast<AreaKind>(load(op.team, inode.at->area_kind));
    const u32 count = load(op.team, inode.at->area_count);
    if (kind == AreaKind::extents) {
        const ExtentList list{inode.at->area.extents, count, format::inline_extents_max};
        for_each_run(op.team, list, 0, key_end, [&](const Extent& part) {
            free_blocks(op, part.start.offset(), part.length);
        });
    }
    if (kind == AreaKind::tree) {
        for (u32 i = 0; i < count; ++i) {
            free_pointed(op, load(op.team, inode.at->area.pairs[i].child.raw));
        }
    }
    if (kind == AreaKind::target) free_pointed(op, load(op.team, inode.at->area.words[0]));
    const u64 attributes = load(op.team, inode.at->attributes.raw);
    if (attributes != 0) free_pointed(op, attributes);
}

/// Frees leaves at the end of a directory's tree, whether they are empty or not. True if the tree
/// had any.
template <class Team>
WARREN_HD Result<bool> release_leaves(Operation<Team>& op, const InodeRef& inode) {
    TreePath path;
    WARREN_TRY(find_path(op, inode, directory_tree, key_end, path));
    if (path.descent.empty) return false;
    WARREN_TRY(op.will_write(inode.seen));
    Pairs above = path.descent.above;
    if (above.count == 1) {
        WARREN_TRY(plan_unhook(op, inode, directory_tree, path));
        WARREN_TRY(op.begin_apply(WARREN_CREDITS(unhook_dirties(path))));
        unhook(op, inode, directory_tree, path);
        op.end_apply();
        return true;
    }
    WARREN_TRY(op.will_write(above.seen));
    u64 places[locks_max];
    u32 count = 0;
    // The first pair of a node stays: its leaf is freed together with the node.
    while (count + 1 < above.count && op.has_lock_room(1)) {
        const BlockPointer leaf{load(op.team, above.pairs[above.count - 1 - count].child.raw)};
        Seen seen;
        WARREN_TRY(observe_child(op, above.seen, leaf, seen));
        WARREN_TRY(op.will_write(seen));
        places[count++] = leaf.offset();
    }
    WARREN_TRY(op.begin_apply(WARREN_CREDITS(release_leaves_dirties(count))));
    once(op.team, [&] { erase_pairs(inode, above, above.count - count, above.count); });
    op.mark_dirty(place_of(inode, above));
    for (u32 i = 0; i < count; ++i)
        free_metadata(op, places[i]);
    count_tree_blocks(op, inode, directory_tree, -static_cast<i64>(count));
    op.end_apply();
    return true;
}

/// Frees a bounded part of the extents or of the tree of a removed inode, from the end on; a
/// directory's leaves are freed even if they contain names. False if nothing was left to free: then
/// releases_in_one_step() returns true.
template <class Team>
WARREN_HD Result<bool> release_contents_step(Operation<Team>& op, Handle handle) {
    WARREN_LET(inode, find_inode(op, handle));
    const auto kind = static_cast<AreaKind>(load(op.team, inode->at->area_kind));
    const u32 type = load(op.team, inode->at->mode) & format::type_mask;
    WARREN_TRY(op.confirm(inode->seen));
    if (kind == AreaKind::bytes || kind == AreaKind::target) return false;
    if (type == format::type_directory) return release_leaves(op, *inode);
    const File file{*inode, 0, kind};
    Cut cut;
    WARREN_TRY(plan_cut(op, file, 0, key_end, CutFrom::end, cut));
    if (!cut.range.frees && !cut.empties) return false;
    WARREN_TRY(op.begin_apply(WARREN_CREDITS(cut_dirties(cut))));
    apply_cut(op, file, cut);
    op.mark_dirty(inode->block_place());
    op.end_apply();
    return true;
}

}  // namespace warren::ops
