// SPDX-License-Identifier: Apache-2.0
// Calls for many items on an engine with its own memory. All cores pack the items into the engine's
// batches (fs/bulk/batch/batch.hpp); items that a batch does not handle are run as commands.
//
// Invariant: the effect is that of the items in order. `answered` counts the items, from the first
// on, that have their result, even if memory runs out (std::bad_alloc).
#pragma once

#include <span>

#include "fs/volume/clone_list.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {

void create_in_batches(VolumeImplementation& volume, const Caller& caller,
                       std::span<const Creation> creations, std::span<Result<Attributes>> results,
                       u64& answered);
void move_in_batches(VolumeImplementation& volume, const Caller& caller,
                     std::span<const Move> moves, std::span<Errc> results, u64& answered);
void remove_in_batches(VolumeImplementation& volume, const Caller& caller,
                       std::span<const Unlink> names, std::span<Errc> results, u64& answered);
void look_up_in_batches(VolumeImplementation& volume, const Caller& caller,
                        std::span<const Lookup> lookups, std::span<Result<Attributes>> results,
                        u64& answered);

/// Clones entries into the clones of their directories, as far as batches can. An answer of
/// Errc::retry leaves the entry to the caller. The answer for a directory is its clone.
void clone_in_batches(VolumeImplementation& volume, const Caller& caller, i64 now,
                      std::span<const CloneEntry* const> entries, std::span<Errc> answers);
void clone_in_batches(VolumeImplementation& volume, const Caller& caller, i64 now,
                      std::span<const CloneEntry* const> entries,
                      std::span<Result<Handle>> answers);

// The same by commands. Commands that depend on each other are not run at the same time.
void create_by_commands(VolumeImplementation& volume, const Caller& caller,
                        std::span<const Creation> creations, std::span<Result<Attributes>> results);
void move_by_commands(VolumeImplementation& volume, const Caller& caller,
                      std::span<const Move> moves, std::span<Errc> results);
void remove_by_commands(VolumeImplementation& volume, const Caller& caller,
                        std::span<const Unlink> names, std::span<Errc> results);
void look_up_by_commands(VolumeImplementation& volume, const Caller& caller,
                         std::span<const Lookup> lookups, std::span<Result<Attributes>> results);

}  // namespace warren
