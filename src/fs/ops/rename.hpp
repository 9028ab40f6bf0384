// SPDX-License-Identifier: Apache-2.0
// rename(2) with all its cases: to a free name, over an existing one, exchange; files and
// directories; within a directory and between two; leaving a whiteout. A directory is never moved
// below itself.
#pragma once

#include "fs/ops/create.hpp"
#include "fs/ops/unlink.hpp"

namespace warren::ops {

/// Blocks that a move marks dirty: both names, the inode, and what the disposal of a replaced inode
/// marks.
inline constexpr u32 move_blocks_max = 2 * entry_blocks_max + 1 + disposal_blocks_max;
/// With a whiteout: also those of its inode.
inline constexpr u32 whiteout_blocks_max = move_blocks_max + new_inode_blocks_max;
static_assert(whiteout_blocks_max <= journal_room_min);
/// An exchange marks both names and both inodes.
static_assert(2 * entry_blocks_max + 2 <= move_blocks_max);

WARREN_HD constexpr bool leaves_whiteout(Rename how) {
    return how == Rename::whiteout || how == Rename::whiteout_no_replace;
}
WARREN_HD constexpr bool may_replace(Rename how) {
    return how == Rename::replace || how == Rename::whiteout;
}

/// How far a cycle check came before it needed a block that was not in memory. A small buffer cache
/// may not hold all inodes of a deep path at the same time, so the next attempt continues from
/// here.
struct MoveWalk {
    u64 version = 0;  // of the move lock
    u64 inode = 0;
    u64 directory = 0;
    u64 at = 0;
};

/// Errc::invalid if `inode` is `directory` or an ancestor of it. A directory's parent changes only
/// under the move lock, which the caller has observed in `moves`. `walk` may be null.
template <class Team>
WARREN_HD Errc check_not_above(Operation<Team>& op, u64 inode, u64 directory, const Seen& moves,
                               MoveWalk* walk) {
    const u64 start = once(op.team, [&] {
        const bool goes_on = walk != nullptr && walk->version == moves.version &&
                             walk->inode == inode && walk->directory == directory;
        return goes_on ? walk->at : directory;
    });
    const u64 steps_max = load(op.team, op.store.state->inode_slots);
    u64 at = start;
    for (u64 steps = 0;; ++steps) {
        if (at == inode) return Errc::invalid;
        if (at == op.store.root_inode || at == op.store.orphan_directory) return Errc::ok;
        if (steps > steps_max) return Errc::corrupt;
        const u32 mark = op.pin_mark();
        const Result<InodeRef> here = find_inode(op, at);
        if (here.code() == Errc::need_block && walk != nullptr) {
            once(op.team, [&] { *walk = {moves.version, inode, directory, at}; });
        }
        if (here.code() == Errc::stale) {
            // A directory is freed before its subdirectories only in a tree that is being removed.
            WARREN_TRY(op.confirm(moves));
            return Errc::no_entry;
        }
        if (!here) return here.code();
        at = load(op.team, here->at->parent);
        WARREN_TRY(op.confirm(here->seen));
        op.release_pins(mark);
    }
}

/// The two names of a rename, and what will be done.
struct RenamePlan {
    Found source;
    Found target;
    bool source_is_directory = false;
    bool target_is_directory = false;
    bool crosses = false;  // source and target are in different directories
    bool nothing = false;  // both names already lead to the same inode: nothing to do
    Disposal disposal;     // of the inode that the target name loses
    NewInode whiteout;
};

/// A whiteout is a character device 0/0 without permission bits, as in the Linux kernel.
WARREN_HD inline CreateArguments whiteout_arguments(i64 now) {
    CreateArguments arguments;
    arguments.mode = format::type_character;
    arguments.now = now;
    return arguments;
}

/// Plans the whiteout that takes the old name.
template <class Team>
WARREN_HD WARREN_NOINLINE Errc plan_whiteout(Operation<Team>& op, const Credentials& caller,
                                             RenamePlan& plan) {
    return plan_inode(op, caller, plan.source.directory, whiteout_arguments(0), plan.whiteout);
}

/// Checks permissions and types as rename(2) does.
template <class Team>
WARREN_HD Errc check_rename(Operation<Team>& op, const Credentials& caller, Rename how,
                            RenamePlan& plan) {
    const Found& source = plan.source;
    const Found& target = plan.target;
    const bool replaces = target.entry.exists;
    if (!source.entry.exists) return Errc::no_entry;
    if (replaces && !may_replace(how) && how != Rename::exchange) return Errc::exists;
    if (how == Rename::exchange && !replaces) return Errc::no_entry;
    plan.source_is_directory = source.entry.type == format::directory_entry;
    plan.target_is_directory = replaces && target.entry.type == format::directory_entry;
    plan.crosses = source.directory.number != target.directory.number;
    WARREN_TRY(check_permission(op, source.directory, caller, may_write));
    WARREN_TRY(check_permission(op, target.directory, caller, may_write));
    WARREN_TRY(check_sticky(op, source.directory, caller, load(op.team, source.inode.at->user)));
    if (replaces) {
        WARREN_TRY(
            check_sticky(op, target.directory, caller, load(op.team, target.inode.at->user)));
    }
    plan.nothing = replaces && source.entry.inode == target.entry.inode;
    if (plan.nothing) return Errc::ok;
    if (how != Rename::exchange && replaces) {
        if (plan.source_is_directory && !plan.target_is_directory) return Errc::not_directory;
        if (!plan.source_is_directory && plan.target_is_directory) return Errc::is_directory;
    }
    if (!plan.crosses) return Errc::ok;
    if (plan.source_is_directory) {
        WARREN_TRY(check_permission(op, source.inode, caller, may_write));
    }
    if (how == Rename::exchange && plan.target_is_directory) {
        WARREN_TRY(check_permission(op, target.inode, caller, may_write));
    }
    return Errc::ok;
}

/// For a move of a directory to another directory: adds the move lock to the plan and checks for
/// cycles.
template <class Team>
WARREN_HD Errc plan_directory_move(Operation<Team>& op, Rename how, const RenamePlan& plan,
                                   MoveWalk* walk) {
    const bool target_moves = how == Rename::exchange && plan.target_is_directory;
    if (!plan.crosses || (!plan.source_is_directory && !target_moves)) return Errc::ok;
    // A directory that is being deleted accepts no names, and may have no path to the root.
    const u64 state = load(op.team, plan.target.directory.at->entries);
    if ((state & format::entries_dying) != 0) return Errc::no_entry;
    Seen moves;
    WARREN_TRY(op.observe(move_lock_place, moves));
    WARREN_TRY(op.will_write(moves));
    if (plan.source_is_directory) {
        WARREN_TRY(check_not_above(op, plan.source.inode.number, plan.target.directory.number,
                                   moves, walk));
    }
    if (target_moves) {
        WARREN_TRY(check_not_above(op, plan.target.inode.number, plan.source.directory.number,
                                   moves, walk));
    }
    return Errc::ok;
}

/// Updates an inode that has a new name. Only within apply.
template <class Team>
WARREN_HD void apply_arrival(Operation<Team>& op, const InodeRef& inode, bool is_directory,
                             const InodeRef& from, const InodeRef& to, i64 now) {
    once(op.team, [&] {
        relaxed_store(inode.at->changed, now);
        if (!is_directory) return;
        note_rights_change(op.store, inode.block_place());
        if (from.number == to.number) return;
        relaxed_store(inode.at->parent, to.number);
        drop_parent_link(from);
        device_atomic<u32>(to.at->links).fetch_add(1, hd::memory_order_relaxed);
    });
    op.mark_dirty(inode.block_place());
}

/// Makes an existing entry point to another inode. Only within apply.
template <class Team>
WARREN_HD void apply_retarget(Operation<Team>& op, const Found& where, const Entry& what, i64 now) {
    once(op.team, [&] {
        retarget_in_leaf(*where.entry.leaf, where.entry.slot, what.inode, what.type);
        touch(where.directory, now);
    });
    op.mark_dirty(where.entry.leaf_seen.place);
    op.mark_dirty(where.directory.block_place());
}

/// Makes the old name point to the whiteout. Only within apply.
template <class Team>
WARREN_HD WARREN_NOINLINE void apply_whiteout(Operation<Team>& op, RenamePlan& plan, i64 now) {
    const Found& source = plan.source;
    apply_inode(op, source.directory, whiteout_arguments(now), plan.whiteout, 1);
    Entry leads_to;
    leads_to.inode = plan.whiteout.inode.number;
    leads_to.type = format::entry_type(format::type_character);
    apply_retarget(op, source, leads_to, now);
}

/// Writes a rename that is not an exchange. Only within apply.
template <class Team>
WARREN_HD Removed apply_rename(Operation<Team>& op, Rename how, RenamePlan& plan, i64 now) {
    const Found& source = plan.source;
    const Found& target = plan.target;
    Removed removed;
    if (leaves_whiteout(how)) {
        apply_whiteout(op, plan, now);
    } else {
        apply_unlink(op, source.directory, source.entry, now);
    }
    if (target.entry.exists) {
        apply_retarget(op, target, source.entry, now);
        if (plan.target_is_directory) {
            once(op.team, [&] { drop_parent_link(target.directory); });
        }
        if (apply_disposal(op, plan.disposal, now)) removed.reclaim = target.inode.handle();
    } else {
        apply_link(op, target.directory, target.name, target.entry, source.entry.inode,
                   source.entry.type, now);
    }
    apply_arrival(op, source.inode, plan.source_is_directory, source.directory, target.directory,
                  now);
    removed.note(load(op.team, source.entry.leaf->count) == 0, source.directory, source.entry.key);
    return removed;
}

/// Writes an exchange. Only within apply.
template <class Team>
WARREN_HD void apply_exchange(Operation<Team>& op, const RenamePlan& plan, i64 now) {
    const Found& source = plan.source;
    const Found& target = plan.target;
    apply_retarget(op, source, target.entry, now);
    apply_retarget(op, target, source.entry, now);
    apply_arrival(op, source.inode, plan.source_is_directory, source.directory, target.directory,
                  now);
    apply_arrival(op, target.inode, plan.target_is_directory, target.directory, source.directory,
                  now);
}

/// Updates the words of directories that other operations check without a lock: counts the new
/// name, marks a replaced directory as being deleted. Errc::no_entry if a directory is being
/// deleted, Errc::not_empty if the replaced one has names. One lane, within apply.
WARREN_HD inline Errc claim_directories(Rename how, const RenamePlan& plan) {
    // Bulk reclaim of a directory has already read which of its entries are directories, so these
    // must not change.
    const bool retargets = how == Rename::exchange || leaves_whiteout(how);
    if (retargets && is_dying(plan.source.directory)) return Errc::no_entry;
    if (how == Rename::exchange) {
        return is_dying(plan.target.directory) ? Errc::no_entry : Errc::ok;
    }
    if (!plan.target.entry.exists) {
        return count_entry(plan.target.directory, 1) ? Errc::ok : Errc::no_entry;
    }
    return plan.target_is_directory ? kill_empty(plan.target.inode) : Errc::ok;
}

/// Renames (from, name) to (to, new_name). `walk` is state of the caller that lasts over several
/// attempts.
template <class Team>
WARREN_HD Result<Removed> rename(Operation<Team>& op, const Credentials& caller, Handle from,
                                 const char* name, u32 length, Handle to, const char* new_name,
                                 u32 new_length, Rename how, i64 now, MoveWalk* walk = nullptr) {
    RenamePlan plan;
    WARREN_LET(source, find(op, caller, from, name, length, may_execute));
    WARREN_LET(target, find(op, caller, to, new_name, new_length, may_execute));
    plan.source = *source;
    plan.target = *target;
    WARREN_TRY(check_rename(op, caller, how, plan));
    if (plan.nothing) return Removed{};
    WARREN_TRY(plan_directory_move(op, how, plan, walk));
    WARREN_TRY(op.will_write(plan.source.entry.leaf_seen));
    WARREN_TRY(op.will_write(plan.source.inode.seen));
    const bool replaces = plan.target.entry.exists;
    if (replaces) {
        WARREN_TRY(op.will_write(plan.target.entry.leaf_seen));
        WARREN_TRY(op.will_write(plan.target.inode.seen));
        if (how != Rename::exchange) {
            WARREN_TRY(
                plan_disposal(op, plan.target.inode, plan.target_is_directory, plan.disposal));
        }
    } else {
        WARREN_TRY(plan_link(op, plan.target.directory, plan.target.name, plan.target.entry));
    }
    Credits credits = WARREN_CREDITS(move_blocks_max);
    if (leaves_whiteout(how)) {
        WARREN_TRY(plan_whiteout(op, caller, plan));
        credits = WARREN_CREDITS(whiteout_blocks_max);
    }

    WARREN_TRY(op.begin_apply(credits));
    const Errc refused = once(op.team, [&] { return claim_directories(how, plan); });
    if (refused != Errc::ok) {
        op.cancel_apply();
        return refused;
    }
    if (how == Rename::exchange) {
        apply_exchange(op, plan, now);
        op.end_apply();
        return Removed{};
    }
    const Removed removed = apply_rename(op, how, plan, now);
    op.end_apply();
    return removed;
}

}  // namespace warren::ops
