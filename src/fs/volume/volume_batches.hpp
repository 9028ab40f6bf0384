// SPDX-License-Identifier: Apache-2.0
// Calls for many items on an engine with its own memory, or with a replica. All cores pack the
// items into batches (fs/bulk/batch/batch.hpp); items that a batch does not handle are run as
// commands.
//
// Invariant: the effect is that of the items in order. `answered` counts the items, from the first
// on, that have their result, even if memory runs out (std::bad_alloc).
#pragma once

#include <functional>
#include <span>

#include "fs/volume/clone_list.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {

/// Runs items one by one, in the order of those that depend on each other, and stores the results.
template <class Item, class Answer>
using ByCommands = std::function<void(std::span<const Item> items, std::span<Answer> answers)>;

void create_in_batches(VolumeImplementation& volume, const Caller& caller,
                       std::span<const Creation> creations, std::span<Result<Attributes>> results,
                       u64& answered, const ByCommands<Creation, Result<Attributes>>& by_commands);
void move_in_batches(VolumeImplementation& volume, const Caller& caller,
                     std::span<const Move> moves, std::span<Errc> results, u64& answered,
                     const ByCommands<Move, Errc>& by_commands);
void remove_in_batches(VolumeImplementation& volume, const Caller& caller,
                       std::span<const Unlink> names, std::span<Errc> results, u64& answered,
                       const ByCommands<Unlink, Errc>& by_commands);
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

/// Whether a replica may run batches of a call for so many items.
inline bool may_ask_replica(VolumeImplementation& volume, u64 items) {
    return volume.replica() != nullptr && items >= volume.replica()->changes_min();
}
/// Whether a call for so many items may run as batches.
inline bool makes_batches(VolumeImplementation& volume, u64 items) {
    return !volume.works_on_host() || may_ask_replica(volume, items);
}

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
