// SPDX-License-Identifier: Apache-2.0
// One directory leaf: finding, inserting and erasing a name; splitting the leaf.
//
// Readers may run while another thread writes: they read words within the leaf with relaxed loads,
// and their caller confirms the leaf's version before it uses the result. Writers hold the leaf's
// lock.
#pragma once

#include "fs/core/name_hash.hpp"
#include "fs/core/tree.hpp"
#include "fs/format/directory.hpp"

namespace warren::core {

using format::DirectoryLeaf;
using format::DirectorySlot;

inline constexpr u32 slot_none = ~0u;

/// A name in the caller's memory, with its hash in this volume.
struct Name {
    const char* bytes = nullptr;
    u32 length = 0;
    u64 hash = 0;
};

WARREN_HD constexpr u32 padded(u32 length) {
    return (length + 7) / 8 * 8;
}

/// Word `index` of a name as the heap stores it, with zeros after the name's end.
WARREN_HD inline u64 name_word(const char* bytes, u32 length, u32 index) {
    return index * 8 < length ? some_bytes(bytes + index * 8, length - index * 8) : 0;
}

WARREN_HD inline DirectorySlot read_slot(const DirectoryLeaf& leaf, u32 slot) {
    return {relaxed_load(leaf.slots[slot].target), relaxed_load(leaf.slots[slot].position)};
}

/// The key of slot `slot`, read by one lane.
WARREN_HD inline u64 read_key(const DirectoryLeaf& leaf, u32 slot) {
    return format::entry_key(relaxed_load(leaf.hashes[slot]), read_slot(leaf, slot));
}

/// Writes an entry into a slot; `target` is DirectorySlot::target. One lane, with the leaf locked.
WARREN_HD inline void write_slot(DirectoryLeaf& leaf, u32 slot, u64 target, u64 key, u32 offset) {
    relaxed_store(leaf.slots[slot].target, target);
    relaxed_store(leaf.slots[slot].position, DirectorySlot::make(0, 0, 0, key, offset).position);
    relaxed_store(leaf.hashes[slot], static_cast<u32>(key >> 31));
}
/// Clears a slot.
WARREN_HD inline void clear_slot(DirectoryLeaf& leaf, u32 slot) {
    write_slot(leaf, slot, 0, 0, 0);
}

/// The result of searching one leaf for one name.
struct LeafFind {
    u32 slot = slot_none;
    DirectorySlot entry{};
    u64 key = 0;
    u64 taken[4] = {};  // numbers that entries with the same hash use in this leaf
};

/// Whether the heap of `leaf` holds exactly `name` where `entry` says. Collective.
template <class Team>
WARREN_HD bool name_equals(const Team& team, const DirectoryLeaf& leaf, DirectorySlot entry,
                           const Name& name) {
    const u32 offset = entry.name_offset();
    if (entry.name_length() != name.length || offset % 8 != 0 ||
        offset + padded(name.length) > format::leaf_heap_bytes) {
        return false;
    }
    const u32 words = padded(name.length) / 8;
    for (u32 base = 0; base < words; base += Team::width) {
        const u32 i = base + team.lane();
        const bool differs = i < words && relaxed_load(leaf.heap[offset / 8 + i]) !=
                                              name_word(name.bytes, name.length, i);
        if (team.ballot(differs) != 0) return false;
    }
    return true;
}

/// Searches `leaf` for `name`. Each step compares W hashes; names are compared only where hashes
/// agree.
template <class Team>
WARREN_HD LeafFind find_in_leaf(const Team& team, const DirectoryLeaf& leaf, const Name& name) {
    LeafFind found;
    const u32 row = static_cast<u32>(name.hash >> 23);
    const u64 low = name.hash & 0x7fffff;
    // A single lane loads several hashes before it compares them, so that the loads overlap.
    constexpr u32 together = Team::width == 1 ? 16 : 1;
    static_assert(format::leaf_entries_max % (Team::width * together) == 0);
    for (u32 base = 0; base < format::leaf_entries_max; base += Team::width * together) {
        u32 agree = 0;  // one bit for each hash that this lane has loaded
        u32 hashes[together];
        for (u32 i = 0; i < together; ++i)
            hashes[i] = relaxed_load(leaf.hashes[base + team.lane() + i]);
        for (u32 i = 0; i < together; ++i)
            agree |= (hashes[i] == row ? 1u : 0u) << i;
        for (u32 rest = Team::width == 1 ? agree : 1; rest != 0; rest &= rest - 1) {
            const u32 own = static_cast<u32>(hd::countr_zero(rest));
            const u32 first = base + own;
            DirectorySlot slot{};
            bool vote = (agree >> own & 1) != 0;
            if (vote) {
                slot = read_slot(leaf, first + team.lane());
                vote = slot.inode() != 0 && (slot.position >> 24 & 0x7fffff) == low;
            }
            for (u32 votes = team.ballot(vote); votes != 0; votes &= votes - 1) {
                const u32 lane = static_cast<u32>(hd::countr_zero(votes));
                const DirectorySlot entry = team.broadcast(slot, lane);
                const u32 number = static_cast<u32>(entry.position >> 16 & 0xff);
                found.taken[number / 64] |= u64{1} << number % 64;
                if (found.slot == slot_none && name_equals(team, leaf, entry, name)) {
                    found.slot = first + lane;
                    found.entry = entry;
                    found.key = format::entry_key(row, entry);
                }
            }
        }
    }
    return found;
}

/// The counters of a leaf.
struct LeafCounts {
    u32 count = 0;
    u32 heap_used = 0;
    u32 heap_live = 0;

    /// Whether one more name of `length` bytes fits, perhaps after compaction.
    WARREN_HD bool have_room(u32 length) const {
        return count < format::leaf_entries_max &&
               heap_live + padded(length) <= format::leaf_heap_bytes;
    }
};

WARREN_HD inline LeafCounts read_counts(const DirectoryLeaf& leaf) {
    return {relaxed_load(leaf.count), relaxed_load(leaf.heap_used), relaxed_load(leaf.heap_live)};
}

/// Moves all names that are in use to the front of the heap. One lane, with the leaf locked.
WARREN_HD inline void compact_leaf(DirectoryLeaf& leaf) {
    u32 end = 0;
    u32 from = 0;
    for (;;) {
        u32 next = slot_none;
        u32 next_offset = format::leaf_heap_bytes;
        for (u32 i = 0; i < format::leaf_entries_max; ++i) {
            const DirectorySlot slot = read_slot(leaf, i);
            if (slot.inode() == 0 || slot.name_offset() < from) continue;
            if (slot.name_offset() >= next_offset) continue;
            next = i;
            next_offset = slot.name_offset();
        }
        if (next == slot_none) break;
        const DirectorySlot slot = read_slot(leaf, next);
        const u32 size = padded(slot.name_length());
        for (u32 i = 0; i < size / 8; ++i) {
            relaxed_store(leaf.heap[end / 8 + i], relaxed_load(leaf.heap[next_offset / 8 + i]));
        }
        relaxed_store(leaf.slots[next].position, (slot.position & ~u64{0xffff}) | end);
        end += size;
        from = next_offset + 1;
    }
    relaxed_store(leaf.heap_used, end);
}

/// The first slot without an entry. Requires: there is one, and the leaf is locked.
template <class Team>
WARREN_HD u32 free_slot(const Team& team, const DirectoryLeaf& leaf) {
    constexpr u32 rows = format::leaf_entries_max / Team::width;
    static_assert(rows * Team::width == format::leaf_entries_max);
    const auto is_free = [&](u32 slot) { return read_slot(leaf, slot).inode() == 0; };
    if constexpr (Team::width == 1) {
        u32 slot = 0;
        while (!is_free(slot))
            ++slot;
        return slot;
    } else {
        bool mine[rows];
        for (u32 row = 0; row < rows; ++row)
            mine[row] = is_free(row * Team::width + team.lane());
        u32 slot = format::leaf_entries_max;
        for (u32 row = 0; row < rows; ++row) {
            const u32 votes = team.ballot(mine[row]);
            if (votes != 0 && slot == format::leaf_entries_max) {
                slot = row * Team::width + static_cast<u32>(hd::countr_zero(votes));
            }
        }
        return slot;
    }
}

/// Writes an entry. Requires: the leaf has room, and is locked or not reachable by others yet.
template <class Team>
WARREN_HD void insert_in_leaf(const Team& team, DirectoryLeaf& leaf, const Name& name, u64 key,
                              u64 inode, u8 type) {
    const u32 size = padded(name.length);
    LeafCounts counts;
    if (team.is_leader()) counts = read_counts(leaf);
    const u32 slot = free_slot(team, leaf);
    counts = team.broadcast(counts, 0);
    if (counts.heap_used + size > format::leaf_heap_bytes) {
        once(team, [&] { compact_leaf(leaf); });
        counts.heap_used = load(team, leaf.heap_used);
    }
    const u32 offset = counts.heap_used;
    for (u32 i = team.lane(); i < size / 8; i += Team::width) {
        relaxed_store(leaf.heap[offset / 8 + i], name_word(name.bytes, name.length, i));
    }
    team.sync();
    once(team, [&] {
        const u64 target = DirectorySlot::make(inode, type, name.length, 0, 0).target;
        write_slot(leaf, slot, target, key, offset);
        relaxed_store(leaf.heap_used, offset + size);
        relaxed_store(leaf.heap_live, counts.heap_live + size);
        relaxed_store(leaf.count, counts.count + 1);
    });
}

/// Points an entry to another inode. One lane, with the leaf locked.
WARREN_HD inline void retarget_in_leaf(DirectoryLeaf& leaf, u32 slot, u64 inode, u8 type) {
    const u64 target = relaxed_load(leaf.slots[slot].target);
    relaxed_store(leaf.slots[slot].target,
                  (target & 0xff00000000000000u) | inode | u64{type} << 48);
}

/// Erases an entry with a name of `length` bytes; its space can be reused at once. Returns how many
/// entries are left. `counts` are the counters of the leaf. One lane, with the leaf locked.
WARREN_HD inline u32 erase_in_leaf(DirectoryLeaf& leaf, u32 slot, u32 length,
                                   const LeafCounts& counts) {
    const u32 left = counts.count - 1;
    clear_slot(leaf, slot);
    relaxed_store(leaf.count, left);
    relaxed_store(leaf.heap_live, left == 0 ? 0 : counts.heap_live - padded(length));
    if (left == 0) relaxed_store(leaf.heap_used, 0);
    return left;
}

/// As above, for callers that know only the slot.
WARREN_HD inline u32 erase_in_leaf(DirectoryLeaf& leaf, u32 slot) {
    const LeafCounts counts = read_counts(leaf);
    return erase_in_leaf(leaf, slot, read_slot(leaf, slot).name_length(), counts);
}

/// Copies one entry from a leaf to another, which has room. One lane; both are locked or private.
WARREN_HD inline void copy_entry(const DirectoryLeaf& from, u32 slot, DirectoryLeaf& to,
                                 u32 to_slot) {
    const DirectorySlot entry = read_slot(from, slot);
    const u32 size = padded(entry.name_length());
    const u32 offset = relaxed_load(to.heap_used);
    for (u32 i = 0; i < size / 8; ++i) {
        relaxed_store(to.heap[offset / 8 + i],
                      relaxed_load(from.heap[entry.name_offset() / 8 + i]));
    }
    write_slot(to, to_slot, entry.target, read_key(from, slot), offset);
    relaxed_store(to.heap_used, offset + size);
    relaxed_store(to.heap_live, offset + size);
    relaxed_store(to.count, relaxed_load(to.count) + 1);
}

/// Tells the code for trees how directory leaves are split and when they are empty.
struct DirectoryLeafType {
    static constexpr TreeKinds kinds = directory_tree;

    /// The key at which to split the leaf: its median key. A leaf with fewer than 7 entries is not
    /// split, because the longest name fits beside them: key_end.
    template <class Team>
    WARREN_HD Result<u64> pivot(Operation<Team>& op, Descent& descent, u64 /*key*/) const {
        return once(op.team, [&]() -> Result<u64> {
            const auto& leaf = *reinterpret_cast<const DirectoryLeaf*>(descent.leaf);
            u64 keys[format::leaf_entries_max];
            u32 count = 0;
            for (u32 i = 0; i < format::leaf_entries_max; ++i) {
                if (read_slot(leaf, i).inode() != 0) keys[count++] = read_key(leaf, i);
            }
            if (count < 7) return key_end;
            for (u32 i = 0; i < count; ++i) {
                u32 rank = 0;
                for (u32 j = 0; j < count; ++j)
                    rank += keys[j] < keys[i] ? 1u : 0u;
                if (rank == count / 2) return keys[i];
            }
            return Errc::retry;
        });
    }

    /// Moves the entries whose keys are not below `pivot` into the new leaf `to`.
    template <class Team>
    WARREN_HD void move_upper(Operation<Team>& op, Block* from, Block* to, u64 pivot) const {
        once(op.team, [&] {
            auto& source = *reinterpret_cast<DirectoryLeaf*>(from);
            auto& target = *reinterpret_cast<DirectoryLeaf*>(to);
            u32 next = 0;
            for (u32 i = 0; i < format::leaf_entries_max; ++i) {
                if (read_slot(source, i).inode() == 0 || read_key(source, i) < pivot) continue;
                copy_entry(source, i, target, next++);
                erase_in_leaf(source, i);
            }
        });
    }
};

}  // namespace warren::core
