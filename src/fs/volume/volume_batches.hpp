// SPDX-License-Identifier: Apache-2.0
// Calls for many items on an engine with its own memory, or with a replica. All cores pack the
// items into batches (fs/bulk/batch/batch.hpp); items that a batch does not handle are run as
// commands.
//
// Invariant: the effect is that of the items in order. `answered` counts the items, from the first
// on, that have their result, even if memory runs out (std::bad_alloc).
#pragma once

#include <algorithm>
#include <functional>
#include <span>

#include "fs/volume/clone_list.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {

/// Runs items one by one, in the order of those that depend on each other, and stores the results.
template <class Item, class Answer>
using ByCommands = std::function<void(std::span<const Item> items, std::span<Answer> answers)>;

/// Items of one kind, and their results.
template <class Item, class Answer>
struct Request {
    VolumeImplementation& volume;
    const Caller& caller;
    std::span<const Item> items;
    std::span<Answer> answers;
    const ByCommands<Item, Answer>& by_commands;
    u64& answered;                  // of the whole request, counted from the first item on
    u64 call_items = items.size();  // of the whole request

    Request part(u64 begin, u64 count) const {
        return {volume,
                caller,
                items.subspan(begin, count),
                answers.subspan(begin, count),
                by_commands,
                answered,
                call_items};
    }
    /// Runs all items as commands.
    void give() const {
        std::ranges::fill(answers, Answer(Errc::no_memory));  // in case memory runs out
        answered += items.size();
        by_commands(items, answers);
    }
};
using Creations = Request<Creation, Result<Attributes>>;
using Moves = Request<Move, Errc>;
using Unlinks = Request<Unlink, Errc>;
using Lookups = Request<Lookup, Result<Attributes>>;

void run_in_batches(const Creations& all);
void run_in_batches(const Moves& all);
void run_in_batches(const Unlinks& all);
void run_in_batches(const Lookups& all);

/// Clones entries into the clones of their directories, as far as batches can. An answer of
/// Errc::retry leaves the entry to the caller. The answer for a directory is its clone; files are
/// many, and theirs are small. `Answer`: Result<Handle> or Errc.
template <class Answer>
void clone_in_batches(VolumeImplementation& volume, const Caller& caller, i64 now,
                      std::span<const CloneEntry* const> entries, std::span<Answer> answers);

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
