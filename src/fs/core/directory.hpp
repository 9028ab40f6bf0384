// SPDX-License-Identifier: Apache-2.0
// Names in a directory, over its tree of leaves, and the word that counts them.
//
// Invariant: `entries` counts the names; once its dying bit is set it never grows again. A name's
// key does not change while it exists, so a reader that continues from a key misses no name that
// persists.
#pragma once

#include "fs/core/directory_leaf.hpp"
#include "fs/core/tree_change.hpp"

namespace warren::core {

/// Where a name is, or where it would go.
struct Entry {
    bool exists = false;
    bool is_full = false;  // it is not there, and no further name of its hash can be added
    u64 inode = 0;
    u8 type = 0;
    u64 key = 0;  // of the name, or the free one that it would get
    u32 slot = slot_none;
    DirectoryLeaf* leaf = nullptr;
    Seen leaf_seen;
};

inline constexpr u64 all_slashes = 0x2f2f2f2f2f2f2f2fu;

WARREN_HD constexpr bool has_zero_byte(u64 word) {
    return ((word - 0x0101010101010101u) & ~word & 0x8080808080808080u) != 0;
}

/// Makes a Name of the caller's bytes. Errc::invalid for an empty one, "." and "..", '/' or NUL.
template <class Team>
WARREN_HD Result<Name> make_name(Operation<Team>& op, const char* bytes, u32 length) {
    if (length > format::name_length_max) return Errc::name_too_long;
    if (length == 0) return Errc::no_entry;
    bool is_odd = false;
    for (u32 i = 0; i < length; i += 8) {
        const u64 word = some_bytes(bytes + i, length - i);
        // The bytes behind the end are zero; no byte of a valid name may be.
        const u64 beyond = length - i < 8 ? ~u64{0} << (length - i) * 8 : 0;
        is_odd = is_odd || has_zero_byte(word | beyond) || has_zero_byte(word ^ all_slashes);
    }
    if (is_odd) return Errc::invalid;
    if (bytes[0] == '.' && (length == 1 || (length == 2 && bytes[1] == '.'))) return Errc::invalid;
    const u64 hash = name_hash(op.store.hash_key, bytes, length) & op.store.hash_mask;
    return Name{bytes, length, hash};
}

/// The lowest number that `taken` leaves free, or 256.
WARREN_HD inline u32 free_number(const u64 (&taken)[4]) {
    for (u32 w = 0; w < 4; ++w) {
        if (~taken[w] != 0) return w * 64 + static_cast<u32>(hd::countr_one(taken[w]));
    }
    return 256;
}

/// Looks for `name` in `directory`. If it is not there, the result is where it would go; its leaf
/// is null if the directory has none yet.
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
        // Names with the same hash continue in the next leaf: that the name is not in this one must
        // still hold when it is added there.
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

/// Notes that apply will add `name` where find_entry() said. Errc::need_split if there is no room,
/// Errc::no_space if too many names have the very same hash.
template <class Team>
WARREN_HD Errc plan_link(Operation<Team>& op, const InodeRef& directory, const Name& name,
                         const Entry& entry) {
    if (entry.is_full) return Errc::no_space;
    if (entry.leaf == nullptr || !leaf_has_room(op.team, *entry.leaf, name.length)) {
        return op.need_structure(Errc::need_split, directory.number, entry.key);
    }
    return op.will_write(entry.leaf_seen);
}

/// Counts `step` (+1 or -1) names in a directory. False if it is dying and would grow. One lane.
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

/// Whether a directory takes no more names. One lane, with the leaves locked that will change: a
/// thread that sets the dying bit afterwards finds them locked, as with count_entry().
WARREN_HD inline bool is_dying(const InodeRef& directory) {
    const u64 entries =
        device_atomic<u64>(directory.at->entries).fetch_add(0, hd::memory_order_relaxed);
    return (entries & format::entries_dying) != 0;
}

/// Turns an empty, live directory into a dying one. Errc::not_empty if it has names. One lane.
WARREN_HD inline Errc kill_empty(const InodeRef& directory) {
    u64 expected = 0;
    device_atomic<u64> word(directory.at->entries);
    if (word.compare_exchange_strong(expected, format::entries_dying, hd::memory_order_relaxed)) {
        return Errc::ok;
    }
    return (expected & format::entries_dying) != 0 ? Errc::no_entry : Errc::not_empty;
}

/// Sets the times that a change of names leaves on a directory. One lane, within apply.
WARREN_HD inline void touch_directory(const InodeRef& directory, i64 now) {
    relaxed_store(directory.at->modified, now);
    relaxed_store(directory.at->changed, now);
}

/// What apply_link() and apply_unlink() mark each: the leaf and the directory's inode.
inline constexpr u32 entry_blocks_max = 2;

/// Adds the name. Only within apply, after count_entry() agreed.
template <class Team>
WARREN_HD void apply_link(Operation<Team>& op, const InodeRef& directory, const Name& name,
                          const Entry& entry, u64 inode, u8 type, i64 now) {
    insert_in_leaf(op.team, *entry.leaf, name, entry.key, inode, type);
    once(op.team, [&] { touch_directory(directory, now); });
    op.mark_dirty_all(
        2, [&](u32 i) { return i == 0 ? entry.leaf_seen.place : directory.block_place(); });
}

/// Updates a directory for the removal of a name. One lane, within apply.
WARREN_HD inline void count_unlink(const InodeRef& directory, i64 now) {
    count_entry(directory, -1);
    device_atomic<u32>(directory.at->unlinks).fetch_add(1, hd::memory_order_relaxed);
    touch_directory(directory, now);
}

/// Removes the name. Only within apply. True if its leaf is empty now and should be pruned.
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

/// Copies the leaf that covers `key` into `copy` (private to each lane's team), with the key at
/// which the next one begins. `copy.count` is 0 if the directory has no leaf there.
template <class Team>
WARREN_HD Result<u64> snapshot_leaf(Operation<Team>& op, const InodeRef& directory, u64 key,
                                    DirectoryLeaf& copy) {
    Descent descent;
    WARREN_TRY(descend(op, directory, directory_tree, key, descent));
    if (descent.empty) {
        once(op.team, [&] {
            copy.count = 0;
            for (u32 i = 0; i < format::leaf_entries_max; ++i)
                copy.slots[i] = {};
        });
        return key_end;
    }
    u64* to = reinterpret_cast<u64*>(&copy);
    for (u32 i = op.team.lane(); i < format::block_size / 8; i += Team::width) {
        to[i] = relaxed_load(descent.leaf->words[i]);
    }
    op.team.sync();
    WARREN_TRY(op.confirm(descent.leaf_seen));
    return descent.upper;
}

}  // namespace warren::core
