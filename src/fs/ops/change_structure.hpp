// SPDX-License-Identifier: Apache-2.0
// Serves need_split and need_prune: one step of a change of the tree of a file or a directory,
// which the driver runs for an operation that returned one of these.
#pragma once

#include "fs/core/directory.hpp"
#include "fs/core/extents.hpp"
#include "fs/core/tree_path.hpp"

namespace warren::ops {

using namespace warren::core;

/// Takes one step in the tree of inode `number` on the path to `key`. Errc::retry if another step
/// is needed. Errc::ok if the operation that needs the change may start again, also if the inode no
/// longer exists.
template <class Team>
WARREN_HD Errc change_structure(Operation<Team>& op, Errc what, u64 number, u64 key) {
    const Result<InodeRef> inode = find_inode(op, number);
    if (!inode) return inode.code() == Errc::stale ? Errc::ok : inode.code();
    const u32 mode = load(op.team, inode->at->mode);
    if (format::is_directory(mode)) {
        return what == Errc::need_split ? make_room(op, *inode, DirectoryLeafType{}, key)
                                        : prune(op, *inode, key);
    }
    // A file's tree loses its leaves together with their extents, so it never needs pruning. The
    // request was for a directory that has been removed, and a file has its inode number now.
    if (what != Errc::need_split) return Errc::ok;
    const Errc made = make_extent_room(op, *inode, key);
    return made == Errc::retry ? Errc::ok : made;
}

}  // namespace warren::ops
