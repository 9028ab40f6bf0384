// SPDX-License-Identifier: Apache-2.0
// What happens to an inode that loses a name: it keeps other names; or it is freed at once; or it
// moves to the hidden orphan directory, because it is open or too large to be freed in one step.
// Unlink, rmdir and a rename over an existing name all use this.
//
// Invariant: an inode without names is in the orphan directory, also on disk, until its last block
// is free; so a crash leaks no space.
#pragma once

#include "fs/ops/lookup.hpp"
#include "fs/ops/release.hpp"

namespace warren::ops {

using format::OrphanName;

/// A name in the orphan directory: where it is, or where it would be added.
struct OrphanEntry {
    InodeRef directory;
    OrphanName text{0};
    Entry entry;

    /// The name. It is valid until this object is moved or destroyed.
    template <class Team>
    WARREN_HD Name name(const Operation<Team>& op) const {
        return {text.text, OrphanName::length,
                name_hash(op.store.hash_key, text.text, OrphanName::length) & op.store.hash_mask};
    }
};

/// Finds the entry of `inode` in the orphan directory, or where it would be added.
template <class Team>
WARREN_HD Errc find_orphan(Operation<Team>& op, u64 inode, OrphanEntry& orphan) {
    const Result<InodeRef> directory = find_inode(op, op.store.orphan_directory);
    if (!directory) return directory.code() == Errc::stale ? Errc::corrupt : directory.code();
    orphan.directory = *directory;
    orphan.text = OrphanName(inode);
    WARREN_LET(entry, find_entry(op, orphan.directory, orphan.name(op)));
    orphan.entry = *entry;
    return Errc::ok;
}

/// Plans to add an inode to the orphan directory. Errc::corrupt if it is there already.
template <class Team>
WARREN_HD Errc plan_orphan(Operation<Team>& op, u64 inode, OrphanEntry& orphan) {
    WARREN_TRY(find_orphan(op, inode, orphan));
    if (orphan.entry.exists) return Errc::corrupt;
    return plan_link(op, orphan.directory, orphan.name(op), orphan.entry);
}

/// Adds an inode to the orphan directory. Only within apply, after plan_orphan().
template <class Team>
WARREN_HD void apply_orphan(Operation<Team>& op, const OrphanEntry& orphan, u64 inode, u32 mode,
                            i64 now) {
    once(op.team, [&] { count_entry(orphan.directory, 1); });
    apply_link(op, orphan.directory, orphan.name(op), orphan.entry, inode, format::entry_type(mode),
               now);
}

/// Takes the ".." of a subdirectory off a directory's link count. A directory that was detached
/// with its tree has no links and is left alone. One lane.
WARREN_HD inline void drop_parent_link(const InodeRef& directory) {
    device_atomic<u32> word(directory.at->links);
    u32 links = word.load(hd::memory_order_relaxed);
    while (links != 0 && !word.compare_exchange_weak(links, links - 1, hd::memory_order_relaxed)) {
    }
}

struct Disposal {
    Fate fate = Fate::keep;
    InodeRef inode;
    format::InodeBitmap* bitmap = nullptr;
    OrphanEntry orphan;
};

/// Blocks that apply_disposal() marks dirty if it frees the inode: the bitmap, and those for the
/// contents. For an orphan they are fewer: the inode and its name.
inline constexpr u32 disposal_blocks_max = 1 + release_blocks_max;
static_assert(1 + entry_blocks_max <= disposal_blocks_max);

/// Plans what happens to `inode` when it loses a name (for a directory: its only one).
template <class Team>
WARREN_HD Errc plan_disposal(Operation<Team>& op, const InodeRef& inode, bool is_directory,
                             Disposal& disposal) {
    op.may_use_reserve = true;
    disposal.inode = inode;
    disposal.fate = once(op.team, [&] {
        return fate_of(op.store, inode, InodeParts(*inode.at), is_directory, false);
    });
    WARREN_TRY(op.confirm(inode.seen));
    WARREN_TRY(op.will_write(inode.seen));
    if (disposal.fate == Fate::keep) return Errc::ok;
    if (disposal.fate == Fate::damaged) return Errc::corrupt;
    if (disposal.fate == Fate::free_leaves) {
        WARREN_LET(fits, note_leaves(op, inode));
        disposal.fate = *fits ? Fate::free : Fate::orphan;
    }
    if (disposal.fate == Fate::free_shared) disposal.fate = Fate::orphan;
    if (disposal.fate == Fate::orphan) return plan_orphan(op, inode.number, disposal.orphan);
    WARREN_LET(bitmap, pin_bitmap(op, inode.number));
    disposal.bitmap = *bitmap;
    return Errc::ok;
}

/// Carries out the plan. Returns whether the inode is an orphan that is not open: the driver then
/// frees it. Only within apply.
template <class Team>
WARREN_HD bool apply_disposal(Operation<Team>& op, const Disposal& disposal, i64 now) {
    const InodeRef& inode = disposal.inode;
    if (disposal.fate == Fate::free) {
        release_contents(op, inode);
        free_inode(op, inode, *disposal.bitmap);
        return false;
    }
    const bool is_orphan = disposal.fate == Fate::orphan;
    once(op.team, [&] {
        relaxed_store(inode.at->links, is_orphan ? 0 : relaxed_load(inode.at->links) - 1);
        relaxed_store(inode.at->changed, now);
    });
    op.mark_dirty(inode.block_place());
    if (!is_orphan) return false;
    apply_orphan(op, disposal.orphan, inode.number, load(op.team, inode.at->mode), now);
    return load(op.team, inode.at->references) < one_open;
}

}  // namespace warren::ops
