// SPDX-License-Identifier: Apache-2.0
// Removing a name: unlink(2) and rmdir(2).
#pragma once

#include "fs/ops/dispose.hpp"

namespace warren::ops {

/// What the caller must do after a name was removed.
struct Removed {
    Handle reclaim;       // an orphan that must be freed step by step; inode 0: none
    u64 prune_inode = 0;  // a directory with an empty leaf; 0: none
    u64 prune_key = 0;

    /// Records that a name with this key was removed from `directory`, and that its leaf must be
    /// pruned if it is empty.
    WARREN_HD void note(bool leaf_is_empty, const InodeRef& directory, u64 key) {
        if (!leaf_is_empty) return;
        prune_inode = directory.number;
        prune_key = key;
    }
};

/// Finds a name that the caller may remove. Errc::no_entry if it does not exist.
template <class Team>
WARREN_HD Result<Found> find_removable(Operation<Team>& op, const Credentials& caller,
                                       Handle directory, const char* name, u32 length) {
    WARREN_LET(found, find(op, caller, directory, name, length, may_execute));
    if (!found->entry.exists) return Errc::no_entry;
    WARREN_TRY(check_permission(op, found->directory, caller, may_write));
    WARREN_TRY(check_sticky(op, found->directory, caller, load(op.team, found->inode.at->user)));
    return found;
}

/// Blocks that apply_simple_unlink() marks dirty: the leaf, the directory's inode, the bitmap.
inline constexpr u32 simple_unlink_blocks_max = entry_blocks_max + 1;
/// Blocks that unlink_general() marks dirty: the name, and what the disposal of the inode marks.
inline constexpr u32 unlink_blocks_max = entry_blocks_max + disposal_blocks_max;

/// Erases a name and frees its inode, which has no blocks. `is_held`: there are references to the
/// inode, so its number is held. Calls `tell()` after it has started all changes that no lock
/// guards. Only within apply.
template <class Team, class Tell>
WARREN_HD void apply_simple_unlink(Operation<Team>& op, const FastEntry<Team>& seen, bool is_held,
                                   i64 now, const Tell& tell) {
    const InodeRef& directory = seen.directory.inode;
    const InodeRef& inode = seen.inode.inode;
    const LeafView& leaf_view = seen.leaf_view;
    const u64 bitmap_place = inode_bit(inode.number).bitmap_place;
    once(op.team, [&] {
        count_unlink(directory, now);
        device_atomic<u64>(op.store.state->inodes_used).fetch_sub(1, hd::memory_order_relaxed);
    });
    tell();
    op.open_locked();
    once(op.team, [&] {
        // What was read of the leaf is still right: the leaf is locked at the version at which it
        // was read.
        erase_in_leaf(*leaf_view.leaf, leaf_view.slot, seen.name.length, leaf_view.counts);
        auto& bitmap = *reinterpret_cast<format::InodeBitmap*>(op.store.base + bitmap_place);
        clear_inode_alone(op.store, inode, inode.generation, bitmap, is_held);
    });
    const auto dirty = [&](u32 i) {
        return i == 0 ? leaf_view.seen.place : i == 1 ? directory.block_place() : bitmap_place;
    };
    op.mark_dirty_all(3, dirty, space_hints(op.store, FrameKind::inodes),
                      inode.number / format::inodes_per_frame);
}

/// Whether a file loses its only name and can be freed at once because it has no blocks.
template <class Team>
WARREN_HD bool is_simple(const Team& team, const Store& store, const InodeImage<Team>& file) {
    const InodeParts seen(team, file);
    return seen.kind == AreaKind::bytes && seen.attributes == 0 &&
           fate_of(store, file.inode, seen, false, false) == Fate::free;
}

/// unlink() for teams of many lanes, for a file that is_simple() and whose leaf keeps other names.
/// Returns false, with nothing changed, if unlink_general() must be used; otherwise stores the
/// result in `outcome`. If the file was removed, `tell()` has been called, which may publish the
/// result: the leaf is still locked, so a concurrent lookup of the name waits. `changed` is then
/// the leaf with its next version, and the caller must end the apply.
template <class Team, class Known, class Tell>
WARREN_HD bool unlink_simply(Operation<Team>& op, const Credentials& caller, Handle directory,
                             const NameWords<Team>& name, i64 now, Result<Removed>& outcome,
                             Seen& changed, Known& known, const Tell& tell) {
    constexpr u32 wanted = may_execute | may_write;
    FastEntry<Team> seen;
    const Team& team = op.team;
    if (!fast_lookup(team, op.store, caller, directory, name, wanted, seen, known)) return false;
    if (!seen.entry.exists) {
        outcome = Errc::no_entry;
        return true;
    }
    if (!seen.has_bitmap || seen.leaf_view.counts.count == 1) return false;
    const InodeImage<Team>& file = seen.inode;
    if (must_own_entries(caller, seen.directory.get(team, &Inode::mode),
                         seen.directory.get(team, &Inode::user)) ||
        seen.entry.type == format::directory_entry || !is_simple(team, op.store, file)) {
        return false;
    }
    op.may_use_reserve = true;
    outcome = op.will_write(file.inode.seen);
    if (outcome.code() == Errc::ok) outcome = op.will_write(seen.leaf_view.seen);
    if (outcome.code() == Errc::ok)
        outcome = op.enter_apply(WARREN_CREDITS(simple_unlink_blocks_max));
    if (outcome.code() != Errc::ok) return true;
    changed = {seen.leaf_view.seen.place, seen.leaf_view.seen.version + 2};
    apply_simple_unlink(op, seen, file.get(team, &Inode::references) != 0, now, tell);
    outcome = Removed{};
    return true;
}

template <class Team>
WARREN_HD WARREN_NOINLINE Result<Removed> unlink_general(Operation<Team>& op,
                                                         const Credentials& caller,
                                                         Handle directory, const char* name,
                                                         u32 length, bool is_rmdir, i64 now) {
    WARREN_LET(found, find_removable(op, caller, directory, name, length));
    const InodeRef parent = found->directory;
    const InodeRef inode = found->inode;
    const bool is_directory = found->entry.type == format::directory_entry;
    if (is_rmdir && !is_directory) return Errc::not_directory;
    if (!is_rmdir && is_directory) return Errc::is_directory;
    Disposal disposal;
    WARREN_TRY(plan_disposal(op, inode, is_directory, disposal));
    WARREN_TRY(op.will_write(found->entry.leaf_seen));

    WARREN_TRY(op.begin_apply(WARREN_CREDITS(unlink_blocks_max)));
    if (is_directory) {
        const Errc killed = once(op.team, [&] { return kill_empty(inode); });
        if (killed != Errc::ok) {
            op.cancel_apply();
            return killed;
        }
        once(op.team, [&] { drop_parent_link(parent); });
    }
    Removed removed;
    removed.note(apply_unlink(op, parent, found->entry, now), parent, found->entry.key);
    if (apply_disposal(op, disposal, now)) removed.reclaim = inode.handle();
    op.end_apply();
    return removed;
}

/// Removes `name`. `is_rmdir` says what it must be: Errc::not_directory or Errc::is_directory if it
/// is something else, Errc::not_empty if the directory has names.
template <class Team>
WARREN_HD Result<Removed> unlink(Operation<Team>& op, const Credentials& caller, Handle directory,
                                 const char* name, u32 length, bool is_rmdir, i64 now) {
    if constexpr (Team::width > 1) {
        Result<Removed> outcome;
        Seen changed;
        NothingKnown known;
        NameWords<Team> words;
        const bool done =
            !is_rmdir && words.take(op.team, name, length) &&
            unlink_simply(op, caller, directory, words, now, outcome, changed, known, [] {});
        if (done && outcome) op.end_apply();
        if (done) return outcome;
    }
    return unlink_general(op, caller, directory, name, length, is_rmdir, now);
}

}  // namespace warren::ops
