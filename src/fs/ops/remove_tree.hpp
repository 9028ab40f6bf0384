// SPDX-License-Identifier: Apache-2.0
// Removal of a whole tree: how its root loses its name, and how directories that a step leaves
// unfinished are added to the orphan directory. bulk/remove_tree/reclaim_tree.hpp frees the tree
// itself.
//
// The tree is freed in bulk steps. A step passes the freeze barrier once for all of its parts, so
// no commit takes its snapshot during a step, and in the meantime parts of the tree may not be
// reachable. Invariant: when a step ends, every inode that still exists is reachable from the
// orphan directory. So a crash between steps leaks nothing, and removal continues when the volume
// is opened again.
#pragma once

#include "fs/ops/reclaim.hpp"

namespace warren::ops {

/// The number of inode bitmaps and blocks of the frame table in the volume. One lane.
WARREN_HD inline u64 count_maps(const Store& store) {
    return relaxed_load(store.state->inode_slots) / format::inode_slots_per_frame +
           store.frame_count / format::frames_per_table_block + 1;
}

/// The number of blocks that a worker may dirty between the moment when a step is full and the end
/// of the leaf that the worker is processing, besides maps_by_worker: two leaves of the orphan
/// directory, at least half full, for the directories of that leaf; the leaf itself; the node above
/// it; the inode of its directory.
inline constexpr u64 dirtied_by_worker = 5;
/// Likewise, the number of inode bitmaps and blocks of the frame table.
inline constexpr u64 maps_by_worker = format::leaf_entries_max * (1 + release_blocks_max);

/// How many blocks this many workers may dirty after the step is full. One lane.
WARREN_HD inline u64 dirtied_when_full(const Store& store, u64 workers) {
    const u64 maps = count_maps(store);
    const u64 by_workers = maps_by_worker * workers;
    return dirtied_by_worker * workers + (maps < by_workers ? maps : by_workers);
}

/// The greatest part of the journal room that a step may reserve. The rest is for other operations:
/// the blocks that these dirty between a commit and a step that waited for it must not make the
/// step wait for the next commit.
WARREN_HD constexpr u64 most_credits(u64 journal_room) {
    return journal_room - journal_room / 16;
}

/// After each of this many commits in a row, other operations dirtied so much that a step found no
/// journal room: then names are removed one by one instead.
inline constexpr u32 roomless_commits_max = 16;

/// Erases the entry of the directory `inode` from `parent`, and makes `inode` one that is being
/// deleted: it accepts no more names. Its field `parent` becomes 0, because the parent's number may
/// soon belong to another directory, even one below it. Returns whether the entry's leaf is empty
/// and should be pruned. Only within apply; the caller marks the block of `inode`.
template <class Team>
WARREN_HD bool apply_detach(Operation<Team>& op, const InodeRef& parent, const Entry& entry,
                            const InodeRef& inode, i64 now) {
    const bool empties = apply_unlink(op, parent, entry, now);
    once(op.team, [&] {
        drop_parent_link(parent);
        mark_dying(*inode.at);
        relaxed_store(inode.at->parent, 0);
        relaxed_store(inode.at->changed, now);
    });
    return empties;
}

/// find_tree() by the fast path; false if that does not apply.
template <class Team>
WARREN_HD bool peek_tree(Operation<Team>& op, const Credentials& caller, Handle directory,
                         const char* name, u32 length, Found& tree) {
    constexpr u32 wanted = may_execute | may_write;
    const Team& team = op.team;
    FastEntry<Team> seen;
    if (!fast_lookup(team, op.store, caller, directory, name, length, wanted, seen)) return false;
    if (!seen.entry.exists || seen.entry.type != format::directory_entry ||
        must_own_entries(caller, seen.directory.get(team, &Inode::mode),
                         seen.directory.get(team, &Inode::user)) ||
        (seen.inode.get(team, &Inode::entries) & format::entries_dying) != 0) {
        return false;
    }
    tree = {seen.directory.inode, seen.name, seen.entry, seen.inode.inode};
    return true;
}

template <class Team>
WARREN_HD WARREN_NOINLINE Errc find_tree_general(Operation<Team>& op, const Credentials& caller,
                                                 Handle directory, const char* name, u32 length,
                                                 Found& tree) {
    WARREN_LET(found, find_removable(op, caller, directory, name, length));
    if (found->entry.type != format::directory_entry) {
        return Errc::not_directory;
    }
    // The operation that has set the flag also frees the directory.
    const u64 names = load(op.team, found->inode.at->entries);
    WARREN_TRY(op.confirm(found->inode.seen));
    if ((names & format::entries_dying) != 0) return Errc::no_entry;
    tree = *found;
    return Errc::ok;
}

/// Finds the directory that detach_tree() or take_tree() removes, and notes what these write.
template <class Team>
WARREN_HD Errc find_tree(Operation<Team>& op, const Credentials& caller, Handle directory,
                         const char* name, u32 length, Found& tree) {
    op.may_use_reserve = true;
    bool is_found = false;
    if constexpr (Team::width > 1) {
        is_found = peek_tree(op, caller, directory, name, length, tree);
    }
    if (!is_found) WARREN_TRY(find_tree_general(op, caller, directory, name, length, tree));
    WARREN_TRY(op.will_write(tree.entry.leaf_seen));
    return op.will_write(tree.inode.seen);
}

/// The root of a tree, and the number of changes of rights before the caller's rights in the tree
/// are checked.
struct TreeBeforeCheck {
    Handle root;
    u64 rights_changes = 0;
};

/// Finds the directory that detach_tree() would remove. Writes nothing.
template <class Team>
WARREN_HD Result<TreeBeforeCheck> look_at_tree(Operation<Team>& op, const Credentials& caller,
                                               Handle directory, const char* name, u32 length) {
    const u64 changes = once(op.team, [&] { return rights_changes(op.store); });
    Found tree;
    WARREN_TRY(find_tree(op, caller, directory, name, length, tree));
    return TreeBeforeCheck{tree.inode.handle(), changes};
}

/// Blocks that detach_tree() marks dirty: the removed name, the name in the orphan directory, and
/// the inode.
inline constexpr u32 detach_blocks_max = 2 * entry_blocks_max + 1;

/// Moves the directory (directory, name) to the orphan directory, marks it as being deleted, and
/// returns its handle. Errc::not_directory if it is not a directory. With `checked`: Errc::canceled
/// if the name leads to another directory now or the caller's rights may have changed.
template <class Team>
WARREN_HD Result<Handle> detach_tree(Operation<Team>& op, const Credentials& caller,
                                     Handle directory, const char* name, u32 length, i64 now,
                                     const TreeBeforeCheck* checked = nullptr) {
    Found tree;
    WARREN_TRY(find_tree(op, caller, directory, name, length, tree));
    const InodeRef inode = tree.inode;
    if (checked != nullptr && inode.handle() != checked->root) return Errc::canceled;
    OrphanEntry orphan;
    WARREN_TRY(plan_orphan(op, inode.number, orphan));
    // A bulk step that lists the directories below its own holds this lock.
    Seen moves;
    WARREN_TRY(op.observe(move_lock_place, moves));
    WARREN_TRY(op.will_write(moves));

    WARREN_TRY(op.begin_apply(WARREN_CREDITS(detach_blocks_max)));
    const bool is_late = checked != nullptr && once(op.team, [&] {
                             return rights_changes(op.store) != checked->rights_changes;
                         });
    if (is_late) {
        op.cancel_apply();
        return Errc::canceled;
    }
    static_cast<void>(apply_detach(op, tree.directory, tree.entry, inode, now));
    once(op.team, [&] { relaxed_store(inode.at->links, 0); });
    op.mark_dirty(inode.block_place());
    apply_orphan(op, orphan, inode.number, format::type_directory, now);
    op.end_apply();
    return inode.handle();
}

/// A directory that has lost its name.
struct TakenTree {
    u64 number = 0;
    Removed removed;  // what the caller must do afterwards
};

/// Removes the directory (directory, name) from its parent within a bulk step, which then frees it
/// or adds it to the orphan directory. Errors as for detach_tree(). All reads come before
/// `may_begin()`, which returns the same value to all lanes: whether the step has begun. If not,
/// the result is Errc::canceled and nothing was written.
template <class Team, class MayBegin>
WARREN_HD Result<TakenTree> take_tree(Operation<Team>& op, const Credentials& caller,
                                      Handle directory, const char* name, u32 length, i64 now,
                                      const MayBegin& may_begin) {
    Found tree;
    WARREN_TRY(find_tree(op, caller, directory, name, length, tree));
    if (!may_begin()) return Errc::canceled;
    WARREN_TRY(op.begin_apply(WARREN_CREDITS(entry_blocks_max)));
    TakenTree taken;
    taken.number = tree.inode.number;
    taken.removed.note(apply_detach(op, tree.directory, tree.entry, tree.inode, now),
                       tree.directory, tree.entry.key);
    op.end_apply();
    return taken;
}

/// Marks a directory as being deleted because the tree that contains it is.
template <class Team>
WARREN_HD Errc start_dying(Operation<Team>& op, Handle handle) {
    WARREN_LET(directory, find_directory(op, handle));
    // The lock keeps the number from another directory until the mark is set.
    WARREN_TRY(op.will_write(directory->seen));
    WARREN_TRY(op.begin_apply(WARREN_CREDITS(inode_blocks_max)));
    once(op.team, [&] { mark_dying(*directory->at); });
    op.mark_changed(directory->block_place());
    if (op.store.heads != nullptr) op.mark_dirty(directory->block_place());
    op.end_apply();
    return Errc::ok;
}

/// Adds a directory that a bulk step leaves unfinished to the orphan directory. Within the step.
/// The directory's inode is not written, because a step may leave many.
template <class Team>
WARREN_HD Errc adopt_orphan(Operation<Team>& op, u64 number, i64 now) {
    op.may_use_reserve = true;
    OrphanEntry orphan;
    WARREN_TRY(find_orphan(op, number, orphan));
    if (orphan.entry.exists) return Errc::ok;
    WARREN_TRY(plan_link(op, orphan.directory, orphan.name(op), orphan.entry));
    WARREN_TRY(op.begin_apply(WARREN_CREDITS(entry_blocks_max)));
    apply_orphan(op, orphan, number, format::type_directory, now);
    op.end_apply();
    return Errc::ok;
}

/// Frees a directory that a bulk step has emptied, together with its name in the orphan directory.
/// Within the step.
template <class Team>
WARREN_HD Result<Removed> end_emptied(Operation<Team>& op, u64 number, i64 now) {
    op.may_use_reserve = true;
    WARREN_LET(inode, find_inode(op, number));
    WARREN_LET(at_once, releases_in_one_step(op, *inode));
    if (!*at_once) return Errc::corrupt;
    WARREN_LET(ended, end_orphan(op, *inode, now));
    return ended->removed;
}

}  // namespace warren::ops
