// SPDX-License-Identifier: Apache-2.0
// Reads every directory, once: its tree, its leaves, each entry against the inode that it names;
// then finds what cannot be reached from the root.
//
// The decision about an entry is final: a repair reads the directory again and calls survives(),
// which uses the decisions of this pass.
#pragma once

#include <string_view>

#include "fs/check/check_context.hpp"
#include "fs/check/directory_entries.hpp"

namespace warren::check {

/// Where an entry lies.
struct EntryPlace {
    u64 leaf = 0;
    u32 slot = 0;
};

void scan_directories(Context& context);

/// Finds directories without a path to the root or the orphan directory, and files without a name:
/// fills context.lost.
void find_lost(Context& context);

/// Checks links, parents and other fields of directories that depend on all names.
void compare_directories(Context& context);

/// Whether an entry of `directory` is kept when the directory is rewritten.
bool survives(const Context& context, u32 directory, const EntryView& entry, EntryPlace place);

/// The hash that a name must have in this volume.
u64 hash_of(const Context& context, std::string_view name);

/// The name of an inode in the directory of orphans.
std::string orphan_name(u64 number);

}  // namespace warren::check
