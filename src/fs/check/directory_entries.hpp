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

/// Calls entry(EntryView) for each entry of `leaf` with a key from `from` on, in the order of their
/// slots. Errc::corrupt if a name is not within the leaf.
template <class Entry>
Errc for_each_entry(const format::DirectoryLeaf& leaf, u64 from, const Entry& entry) {
    const char* heap = reinterpret_cast<const char*>(leaf.heap);
    for (u32 i = 0; i < format::leaf_entries_max; ++i) {
        const format::DirectorySlot slot = leaf.slots[i];
        const u64 key = format::entry_key(leaf.hashes[i], slot);
        if (slot.inode() == 0 || key < from) continue;
        if (slot.name_offset() + slot.name_length() > format::leaf_heap_bytes) {
            return Errc::corrupt;
        }
        entry(EntryView{key, slot.inode(), slot.type(), i,
                        std::string_view(heap + slot.name_offset(), slot.name_length())});
    }
    return Errc::ok;
}

}  // namespace warren

namespace warren::check {

/// The readable entries of a leaf, in the order of their keys.
struct LeafEntries {
    std::array<EntryView, format::leaf_entries_max> entries;
    u32 count = 0;
    u32 unreadable = 0;         // live slots without a readable name
    bool is_consistent = true;  // format::directory_leaf_is_sound()

    const EntryView* begin() const { return entries.data(); }
    const EntryView* end() const { return entries.data() + count; }
};

/// Reads `leaf`, which may contain any bytes and must outlive `entries`.
void read_entries(const format::DirectoryLeaf& leaf, LeafEntries& entries);

}  // namespace warren::check
