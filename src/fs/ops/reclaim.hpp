// SPDX-License-Identifier: Apache-2.0
// Freeing an orphan that is not a directory: its contents step by step, and with the last step its
// name in the orphan directory and the inode itself.
#pragma once

#include "fs/ops/unlink.hpp"

namespace warren::ops {

struct Reclaimed {
    bool is_done = false;
    Removed removed;  // what the caller must do afterwards
};

/// What end_orphan() marks: its name, the bitmap, and what freeing its contents marks.
inline constexpr u32 end_orphan_blocks_max = entry_blocks_max + 1 + release_blocks_max;

/// Removes the orphan's name and frees the orphan. Requires: releases_in_one_step() returned true
/// in this operation.
template <class Team>
WARREN_HD Result<Reclaimed> end_orphan(Operation<Team>& op, const InodeRef& inode, i64 now) {
    OrphanEntry orphan;
    WARREN_TRY(find_orphan(op, inode.number, orphan));
    if (!orphan.entry.exists) return Errc::corrupt;
    const Result<format::InodeBitmap*> bitmap = pin_bitmap(op, inode.number);
    if (!bitmap) return bitmap.code();
    WARREN_TRY(op.will_write(inode.seen));
    WARREN_TRY(op.will_write(orphan.entry.leaf_seen));
    WARREN_TRY(op.begin_apply(WARREN_CREDITS(end_orphan_blocks_max)));
    Reclaimed reclaimed{true, {}};
    reclaimed.removed.note(apply_unlink(op, orphan.directory, orphan.entry, now), orphan.directory,
                           orphan.entry.key);
    release_contents(op, inode);
    free_inode(op, inode, **bitmap);
    op.end_apply();
    return reclaimed;
}

/// One step of freeing an inode without names. Done at once if it has a name or is open again,
/// unless `although_open`: directories of a tree that is being removed are freed even if they are
/// open.
template <class Team>
WARREN_HD Result<Reclaimed> reclaim_step(Operation<Team>& op, Handle handle, i64 now,
                                         bool although_open = false) {
    op.may_use_reserve = true;
    const Result<InodeRef> inode = find_inode(op, handle);
    if (!inode) return inode.code();
    const bool is_open = load(op.team, inode->at->references) >= one_open;
    const bool has_name = load(op.team, inode->at->links) > 0;
    WARREN_TRY(op.confirm(inode->seen));
    if (!although_open && (has_name || is_open)) return Reclaimed{true, {}};
    const Result<bool> at_once = releases_in_one_step(op, *inode);
    if (!at_once) return at_once.code();
    if (*at_once) return end_orphan(op, *inode, now);
    op.forget_locks();
    const Result<bool> stepped = release_contents_step(op, handle);
    if (!stepped) return stepped.code();
    // The inode holds blocks, but a step finds none.
    if (!*stepped) return Errc::corrupt;
    return Reclaimed{};
}

}  // namespace warren::ops
