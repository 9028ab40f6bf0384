// SPDX-License-Identifier: Apache-2.0
// The entries of one directory leaf, read without trust in any byte of it.
#pragma once

#include <array>
#include <string_view>

#include "fs/format/directory.hpp"

namespace warren::check {

/// One entry whose name can be read. `name` points into the leaf.
struct EntryView {
    u64 key = 0;
    u64 inode = 0;
    u8 type = 0;
    u32 slot = 0;
    std::string_view name;

    u64 hash() const { return key >> 8; }
};

/// The readable entries of a leaf, in the order of their keys.
struct LeafEntries {
    std::array<EntryView, format::leaf_entries_max> entries;
    u32 count = 0;
    u32 unreadable = 0;         // live slots without a readable name
    bool is_consistent = true;  // counters, offsets and padding are right

    const EntryView* begin() const { return entries.data(); }
    const EntryView* end() const { return entries.data() + count; }
};

/// Reads `leaf`, which must outlive the answer.
void read_entries(const format::DirectoryLeaf& leaf, LeafEntries& entries);

}  // namespace warren::check
