// SPDX-License-Identifier: Apache-2.0
// An entry is kept if its name is valid and lies in the heap. Anything else that is wrong in a leaf
// can be repaired by rewriting it.
#include "fs/check/directory_entries.hpp"

#include <algorithm>

#include "fs/format/check_structure.hpp"

namespace warren::check {

using format::DirectoryLeaf;
using format::leaf_entries_max;

void read_entries(const DirectoryLeaf& leaf, LeafEntries& out) {
    out.count = 0;
    out.unreadable = 0;
    const char* heap = reinterpret_cast<const char*>(leaf.heap);
    for (u32 i = 0; i < leaf_entries_max; ++i) {
        const format::DirectorySlot slot = leaf.slots[i];
        if (slot.inode() == 0) continue;
        if (!format::entry_is_readable(leaf, i)) {
            ++out.unreadable;
            continue;
        }
        out.entries[out.count++] = {
            format::entry_key(leaf.hashes[i], slot), slot.inode(), slot.type(), i,
            std::string_view(heap + slot.name_offset(), slot.name_length())};
    }
    out.is_consistent = format::directory_leaf_is_sound(leaf);
    std::sort(out.entries.begin(), out.entries.begin() + out.count,
              [](const EntryView& a, const EntryView& b) {
                  return a.key != b.key ? a.key < b.key : a.slot < b.slot;
              });
}

}  // namespace warren::check
