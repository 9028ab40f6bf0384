// SPDX-License-Identifier: Apache-2.0
// The names of a directory: looking up, adding and removing entries in its tree of leaves, and the
// word that counts them.
//
// Invariant: `entries` counts the names; once its flag entries_dying is set (the directory is being
// deleted) it never grows again. The key of a name does not change while the name exists, so a
// listing that continues from a key misses no name that exists throughout.
#pragma once

#include "fs/core/directory_leaf.hpp"
#include "fs/core/tree_change.hpp"

namespace warren::core {

/// Where a name is, or where it would be added.
struct Entry {
    bool exists = false;
    bool is_full = false;  // the name does not exist, and no more names of its hash can be added
    u64 inode = 0;
    u8 type = 0;
    u64 key = 0;  // of the name, or the free key that it would get
    u32 slot = slot_none;
    DirectoryLeaf* leaf = nullptr;
    Seen leaf_seen;
};

inline constexpr u64 all_slashes = 0x2f2f2f2f2f2f2f2fu;

WARREN_HD constexpr bool has_zero_byte(u64 word) {
    return ((word - 0x0101010101010101u) & ~word & 0x8080808080808080u) != 0;
}

/// Makes a Name of the caller's bytes. Errc::no_entry if it is empty, Errc::name_too_long,
/// Errc::invalid for "." and ".." and for names with '/' or NUL.
template <class Team>
WARREN_HD Result<Name> make_name(Operation<Team>& op, const char* bytes, u32 length) {
    if (length > format::name_length_max) return Errc::name_too_long;
    if (length == 0) return Errc::no_entry;
    bool is_odd = false;
    for (u32 i = 0; i < length; i += 8) {
        const u64 word = some_bytes(bytes + i, length - i);
        // The bytes of the word after the name's end are zero, which is not an error; within the
        // name a zero byte is.
        const u64 beyond = length - i < 8 ? ~u64{0} << (length - i) * 8 : 0;
        is_odd = is_odd || has_zero_byte(word | beyond) || has_zero_byte(word ^ all_slashes);
    }
    if (is_odd) return Errc::invalid;
    if (bytes[0] == '.' && (length == 1 || (length == 2 && bytes[1] == '.'))) return Errc::invalid;
    const u64 hash = name_hash(op.store.hash_key, bytes, length) & op.store.hash_mask;
    return Name{bytes, length, hash};
}

/// The lowest number whose bit in `taken` is clear, or 256 if all are set.
WARREN_HD inline u32 free_number(const u64 (&taken)[4]) {
    for (u32 w = 0; w < 4; ++w) {
        if (~taken[w] != 0) return w * 64 + static_cast<u32>(hd::countr_one(taken[w]));
    }
    return 256;
}

/// Looks for `name` in `directory`. If it is not there, the result says where it would be added;
/// `leaf` is null if the directory has no leaf yet.
template <class Team>
WARREN_HD Result<Entry> find_entry(Operation<Team>& op, const InodeRef& directory,
                                   const Name& name) {
    Entry entry;
    const u64 first = format::first_key(name.hash);
    u64 taken[4] = {};
    Descent descent;
    u64 at = first;
    do {
        WARREN_TRY(descend(op, directory, directory_tree, at, descent));
        if (descent.empty) break;
        auto& leaf = *reinterpret_cast<DirectoryLeaf*>(descent.leaf);
        const LeafFind found = find_in_leaf(op.team, leaf, name);
        WARREN_TRY(op.confirm(descent.leaf_seen));
        if (found.slot != slot_none) {
            entry.exists = true;
            entry.inode = found.entry.inode();
            entry.type = found.entry.type();
            entry.key = found.key;
            entry.slot = found.slot;
            entry.leaf = &leaf;
            entry.leaf_seen = descent.leaf_seen;
            return entry;
        }
        for (u32 w = 0; w < 4; ++w)
            taken[w] |= found.taken[w];
        at = descent.upper;
        if (at > (first | 0xff)) break;
        // Names with the same hash may continue in the next leaf. This leaf is noted for locking
        // too, so that the name cannot be added to it before this operation adds it to another one.
        entry.is_full = entry.is_full || !op.has_lock_room(8);
        if (!entry.is_full) WARREN_TRY(op.will_write(descent.leaf_seen));
    } while (true);
    const u32 number = free_number(taken);
    entry.is_full = entry.is_full || number == 256;
    if (entry.is_full) return entry;
    entry.key = first | number;
    if (descent.empty) return entry;
    if (entry.key < descent.lower) {
        WARREN_TRY(descend(op, directory, directory_tree, entry.key, descent));
    }
    entry.leaf = reinterpret_cast<DirectoryLeaf*>(descent.leaf);
    entry.leaf_seen = descent.leaf_seen;
    return entry;
}

/// Plans to add `name` where find_entry() said. Errc::need_split if the leaf has no room,
/// Errc::no_space if too many names have the same hash.
template <class Team>
WARREN_HD Errc plan_link(Operation<Team>& op, const InodeRef& directory, const Name& name,
                         const Entry& entry) {
    if (entry.is_full) return Errc::no_space;
    const bool has_room = entry.leaf != nullptr && once(op.team, [&] {
                              return read_counts(*entry.leaf).have_room(name.length);
                          });
    if (!has_room) return op.need_structure(Errc::need_split, directory.number, entry.key);
    return op.will_write(entry.leaf_seen);
}

/// Adds `step` (+1 or -1) to the number of names. False if the directory is being deleted and
/// `step` is +1. One lane.
WARREN_HD inline bool count_entry(const InodeRef& directory, i64 step) {
    device_atomic<u64> word(directory.at->entries);
    if (step < 0) {
        word.fetch_add(static_cast<u64>(step), hd::memory_order_relaxed);
        return true;
    }
    u64 old = word.load(hd::memory_order_relaxed);
    do {
        if ((old & format::entries_dying) != 0) return false;
    } while (
        !word.compare_exchange_weak(old, old + static_cast<u64>(step), hd::memory_order_relaxed));
    return true;
}

/// Whether a directory is being deleted and takes no more names. One lane, with the leaves locked
/// that will change: a thread that sets the flag after this call finds these leaves locked. The
/// same holds for count_entry().
WARREN_HD inline bool is_dying(const InodeRef& directory) {
    const u64 entries =
        device_atomic<u64>(directory.at->entries).fetch_add(0, hd::memory_order_relaxed);
    return (entries & format::entries_dying) != 0;
}

/// Marks a directory as being deleted, whatever names it has. One lane, with the inode locked.
WARREN_HD inline void mark_dying(Inode& directory) {
    device_atomic<u64>(directory.entries).fetch_or(format::entries_dying, hd::memory_order_relaxed);
}

/// Marks a directory without names as being deleted. Errc::not_empty if it has names,
/// Errc::no_entry if it is marked already. One lane.
WARREN_HD inline Errc kill_empty(const InodeRef& directory) {
    u64 expected = 0;
    device_atomic<u64> word(directory.at->entries);
    if (word.compare_exchange_strong(expected, format::entries_dying, hd::memory_order_relaxed)) {
        return Errc::ok;
    }
    return (expected & format::entries_dying) != 0 ? Errc::no_entry : Errc::not_empty;
}

/// Blocks that apply_link() or apply_unlink() marks dirty: the leaf and the directory's inode.
inline constexpr u32 entry_blocks_max = 2;

/// Adds the name. Only within apply, after count_entry() returned true.
template <class Team>
WARREN_HD void apply_link(Operation<Team>& op, const InodeRef& directory, const Name& name,
                          const Entry& entry, u64 inode, u8 type, i64 now) {
    insert_in_leaf(op.team, *entry.leaf, name, entry.key, inode, type);
    once(op.team, [&] { touch(directory, now); });
    op.mark_dirty_all(
        2, [&](u32 i) { return i == 0 ? entry.leaf_seen.place : directory.block_place(); });
}

/// Updates the directory's counters and times for the removal of a name. One lane, within apply.
WARREN_HD inline void count_unlink(const InodeRef& directory, i64 now) {
    count_entry(directory, -1);
    touch(directory, now);
}

/// Removes the name; returns whether its leaf is empty and should be pruned. Only within apply.
template <class Team>
WARREN_HD bool apply_unlink(Operation<Team>& op, const InodeRef& directory, const Entry& entry,
                            i64 now) {
    const bool empty = once(op.team, [&] {
        const u32 left = erase_in_leaf(*entry.leaf, entry.slot);
        count_unlink(directory, now);
        return left == 0;
    });
    op.mark_dirty_all(
        2, [&](u32 i) { return i == 0 ? entry.leaf_seen.place : directory.block_place(); });
    return empty;
}

}  // namespace warren::core
