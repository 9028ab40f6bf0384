// SPDX-License-Identifier: Apache-2.0
// Taking a name away: unlink(2) and rmdir(2).
#pragma once

#include "fs/ops/dispose.hpp"

namespace warren::ops {

/// What is left to do after a name went.
struct Removed {
    Handle reclaim;       // an orphan to be freed step by step; inode 0 for none
    u64 prune_inode = 0;  // a directory with an empty leaf, 0 for none
    u64 prune_key = 0;
};

/// Finds a name that the caller may take away. Errc::no_entry if it is not there.
template <class Team>
WARREN_HD Result<Found> find_removable(Operation<Team>& op, const Credentials& caller,
                                       Handle directory, const char* name, u32 length) {
    const Result<Found> found = find(op, caller, directory, name, length, may_execute);
    if (!found) return found.code();
    if (!found->entry.exists) return Errc::no_entry;
    WARREN_TRY(check_permission(op, found->directory, caller, may_write));
    WARREN_TRY(check_sticky(op, found->directory, caller, load(op.team, found->inode.at->user)));
    return found;
}

/// Removes `name`. `is_rmdir` says which kind it must be: Errc::not_directory, Errc::is_directory.
/// A directory must be empty: Errc::not_empty.
template <class Team>
WARREN_HD Result<Removed> unlink(Operation<Team>& op, const Credentials& caller, Handle directory,
                                 const char* name, u32 length, bool is_rmdir, i64 now) {
    const Result<Found> found = find_removable(op, caller, directory, name, length);
    if (!found) return found.code();
    const InodeRef parent = found->directory;
    const InodeRef inode = found->inode;
    const bool is_directory = found->entry.type == format::entry_type(format::type_directory);
    if (is_rmdir && !is_directory) return Errc::not_directory;
    if (!is_rmdir && is_directory) return Errc::is_directory;
    Disposal disposal;
    WARREN_TRY(plan_disposal(op, inode, is_directory, disposal));
    WARREN_TRY(op.will_write(found->entry.leaf_seen));

    WARREN_TRY(op.begin_apply(3 + disposal_blocks_max));
    if (is_directory) {
        const Errc killed = once(op.team, [&] { return kill_empty(inode); });
        if (killed != Errc::ok) {
            op.cancel_apply();
            return killed;
        }
        once(op.team, [&] { drop_parent_link(parent); });
    }
    Removed removed;
    if (apply_unlink(op, parent, found->entry, now)) {
        removed.prune_inode = parent.number;
        removed.prune_key = found->entry.key;
    }
    if (apply_disposal(op, disposal, now)) removed.reclaim = inode.handle();
    op.end_apply();
    return removed;
}

}  // namespace warren::ops
