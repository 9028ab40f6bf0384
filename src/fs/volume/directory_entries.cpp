// SPDX-License-Identifier: Apache-2.0
// A name is readable if it lies in the heap; everything else about a leaf can be made right again
// by writing it anew.
#include "fs/volume/directory_entries.hpp"

#include <algorithm>

#include "fs/format/check_structure.hpp"

namespace warren::check {

using format::DirectoryLeaf;
using format::leaf_entries_max;
using format::leaf_heap_bytes;

namespace {

constexpr u32 padded(u32 length) {
    return (length + 7) / 8 * 8;
}

/// A bit for each 8 bytes of the heap.
class HeapMap {
 public:
    /// False if a part of the range was taken before.
    bool take(u32 offset, u32 length) {
        bool is_free = true;
        for (u32 i = offset / 8; i < (offset + length) / 8; ++i) {
            is_free = is_free && !taken_[i];
            taken_[i] = true;
        }
        return is_free;
    }

 private:
    std::array<bool, leaf_heap_bytes / 8> taken_{};
};

}  // namespace

void read_entries(const DirectoryLeaf& leaf, LeafEntries& out) {
    out.count = 0;
    out.unreadable = 0;
    const char* heap = reinterpret_cast<const char*>(leaf.heap);
    HeapMap map;
    u32 live_bytes = 0;
    bool is_consistent = leaf.heap_used <= leaf_heap_bytes;
    for (u32 i = 0; i < leaf_entries_max; ++i) {
        const format::DirectorySlot slot = leaf.slots[i];
        if (slot.inode() == 0) continue;
        const u32 length = slot.name_length();
        const u32 offset = slot.name_offset();
        const u32 size = padded(length);
        if (length == 0 || offset % 8 != 0 || offset + size > leaf_heap_bytes) {
            ++out.unreadable;
            continue;
        }
        EntryView& entry = out.entries[out.count];
        entry = {format::entry_key(leaf.hashes[i], slot), slot.inode(), slot.type(), i,
                 std::string_view(heap + offset, length)};
        if (!format::is_name(entry.name)) {
            ++out.unreadable;
            continue;
        }
        ++out.count;
        live_bytes += size;
        is_consistent = is_consistent && offset + size <= leaf.heap_used &&
                        slot.position >> 47 == 0 && map.take(offset, size) &&
                        std::all_of(heap + offset + length, heap + offset + size,
                                    [](char c) { return c == 0; });
    }
    out.is_consistent = is_consistent && out.unreadable == 0 && leaf.count == out.count &&
                        leaf.heap_live == live_bytes;
    std::sort(out.entries.begin(), out.entries.begin() + out.count,
              [](const EntryView& a, const EntryView& b) {
                  return a.key != b.key ? a.key < b.key : a.slot < b.slot;
              });
}

}  // namespace warren::check
