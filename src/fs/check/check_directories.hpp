// SPDX-License-Identifier: Apache-2.0
// Checks every directory: its tree, its leaves, and each entry against the inode that it names.
// Afterwards finds the inodes that cannot be reached from the root.
//
// The decision whether an entry is kept is final: a repair reads the directory again and calls
// survives(), which uses the decisions of this pass.
#pragma once

#include <string_view>

#include "fs/check/check_context.hpp"
#include "fs/check/directory_entries.hpp"

namespace warren::check {

/// The place of an entry.
struct EntryPlace {
    u64 leaf = 0;
    u32 slot = 0;
};

/// Reads and checks all directories.
void scan_directories(Context& context);

/// Fills context.lost with directories that have no path to the root or the orphan directory, and
/// files without a name.
void find_lost(Context& context);

/// Checks the fields of directories that depend on all names: link counts, parents, and whether
/// they are being deleted.
void compare_directories(Context& context);

/// Whether an entry of `directory` is kept when the directory is rewritten.
bool survives(const Context& context, u32 directory, const EntryView& entry, EntryPlace place);

/// The hash that a name must have in this volume.
u64 hash_of(const Context& context, std::string_view name);

}  // namespace warren::check
