// SPDX-License-Identifier: Apache-2.0
// Reads the entries of one directory leaf on the host.
#pragma once

#include <array>
#include <string_view>

#include "fs/format/directory.hpp"
#include "warren/result.hpp"

namespace warren {

/// One entry whose name can be read. `name` points into the leaf.
struct EntryView {
    u64 key = 0;
    u64 inode = 0;
    u8 type = 0;
    u32 slot = 0;
    std::string_view name;

    u64 hash() const { return key >> 8; }
};

/// Whether the name in a slot lies within the leaf.
inline bool has_name_within(const format::DirectoryLeaf& leaf, u32 slot) {
    const format::DirectorySlot entry = leaf.slots[slot];
    return entry.name_offset() + entry.name_length() <= format::leaf_heap_bytes;
}

/// The entry in a slot. Requires: its name lies within the leaf.
inline EntryView view_of(const format::DirectoryLeaf& leaf, u32 slot) {
    const format::DirectorySlot entry = leaf.slots[slot];
    const char* heap = reinterpret_cast<const char*>(leaf.heap);
    return {format::entry_key(leaf.hashes[slot], entry), entry.inode(), entry.type(), slot,
            std::string_view(heap + entry.name_offset(), entry.name_length())};
}

/// Calls entry(EntryView) for each entry of `leaf` with a key from `from` on, in the order of their
/// slots. Errc::corrupt if a name is not within the leaf.
template <class Entry>
Errc for_each_entry(const format::DirectoryLeaf& leaf, u64 from, const Entry& entry) {
    for (u32 i = 0; i < format::leaf_entries_max; ++i) {
        const format::DirectorySlot slot = leaf.slots[i];
        if (slot.inode() == 0 || format::entry_key(leaf.hashes[i], slot) < from) continue;
        if (!has_name_within(leaf, i)) return Errc::corrupt;
        entry(view_of(leaf, i));
    }
    return Errc::ok;
}

}  // namespace warren

namespace warren::check {

/// The readable entries of a leaf, in the order of their keys.
struct LeafEntries {
    std::array<EntryView, format::leaf_entries_max> entries;
    u32 count = 0;

    const EntryView* begin() const { return entries.data(); }
    const EntryView* end() const { return entries.data() + count; }
};

/// Reads `leaf`, which may contain any bytes and must outlive the result.
LeafEntries read_entries(const format::DirectoryLeaf& leaf);

}  // namespace warren::check
