// SPDX-License-Identifier: Apache-2.0
// Frees an orphan that is not a directory with names: its contents step by step, and in the last
// step its name in the orphan directory and the inode.
#pragma once

#include "fs/ops/unlink.hpp"

namespace warren::ops {

struct Reclaimed {
    bool is_done = false;
    Removed removed;  // what the caller must do afterwards
};

/// Blocks that end_orphan() marks dirty: the orphan's name, the bitmap, and those for its contents.
inline constexpr u32 end_orphan_blocks_max = entry_blocks_max + 1 + release_blocks_max;

/// Removes the orphan's name and frees the orphan. Requires: in this operation
/// releases_in_one_step() has returned true.
template <class Team>
WARREN_HD Result<Reclaimed> end_orphan(Operation<Team>& op, const InodeRef& inode, i64 now) {
    OrphanEntry orphan;
    WARREN_TRY(find_orphan(op, inode.number, orphan));
    if (!orphan.entry.exists) return Errc::corrupt;
    WARREN_LET(bitmap, pin_bitmap(op, inode.number));
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

/// One step of freeing an inode without names. If the inode has a name or is open, the result is
/// "done" and nothing is freed; with `although_open`, for directories of a tree that is being
/// removed, it is freed nevertheless.
template <class Team>
WARREN_HD Result<Reclaimed> reclaim_step(Operation<Team>& op, Handle handle, i64 now,
                                         bool although_open = false) {
    op.may_use_reserve = true;
    WARREN_LET(inode, find_inode(op, handle));
    const bool is_open = load(op.team, inode->at->references) >= one_open;
    const bool has_name = load(op.team, inode->at->links) > 0;
    WARREN_TRY(op.confirm(inode->seen));
    if (!although_open && (has_name || is_open)) return Reclaimed{true, {}};
    WARREN_LET(at_once, releases_in_one_step(op, *inode));
    if (*at_once) return end_orphan(op, *inode, now);
    op.forget_locks();
    WARREN_LET(stepped, release_contents_step(op, handle));
    // The inode holds blocks, but a step finds none to free.
    if (!*stepped) return Errc::corrupt;
    return Reclaimed{};
}

}  // namespace warren::ops
