// SPDX-License-Identifier: Apache-2.0
// An entry is kept if its name is valid and lies in the heap. Anything else that is wrong in a leaf
// can be repaired by rewriting it.
#include "fs/check/directory_entries.hpp"

#include <algorithm>
#include <span>

#include "fs/format/check_structure.hpp"

namespace warren::check {

using format::DirectoryLeaf;
using format::leaf_entries_max;

LeafEntries read_entries(const DirectoryLeaf& leaf) {
    LeafEntries out;
    for (u32 i = 0; i < leaf_entries_max; ++i) {
        if (leaf.slots[i].inode() == 0 || !format::entry_is_readable(leaf, i)) continue;
        out.entries[out.count++] = view_of(leaf, i);
    }
    std::ranges::stable_sort(std::span(out.entries).first(out.count), {}, &EntryView::key);
    return out;
}

}  // namespace warren::check
