// SPDX-License-Identifier: Apache-2.0
// Reads every directory, once: its tree, its leaves, each entry against the inode that it names;
// then finds out what cannot be reached from the root.
//
// What is decided here about an entry is decided for good: a repair reads the directory again and
// asks survives(), which answers from what this pass has noted.
#pragma once

#include <string_view>

#include "fs/volume/check_context.hpp"
#include "fs/volume/directory_entries.hpp"

namespace warren::check {

/// Where an entry lies.
struct EntryPlace {
    u64 leaf = 0;
    u32 slot = 0;
};

void scan_directories(Context& context);

/// Finds directories that lead to no anchor, and files without a name: fills context.lost.
void find_lost(Context& context);

/// Compares links, parents and what else needs all names to be known, of directories.
void compare_directories(Context& context);

/// Whether an entry of `directory` stays when the directory is written anew.
bool survives(const Context& context, u32 directory, const EntryView& entry, EntryPlace place);

/// The hash that a name must have in this volume.
u64 hash_of(const Context& context, std::string_view name);

/// The name of an inode in the directory of orphans.
std::string orphan_name(u64 number);

}  // namespace warren::check
