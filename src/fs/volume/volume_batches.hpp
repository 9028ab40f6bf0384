// SPDX-License-Identifier: Apache-2.0
// Many items on an engine that has memory of its own: packed into its batches (fs/ops/batch.hpp) by
// all cores, and what a batch leaves over given as commands.
//
// Invariant: the effect is that of the items one after the other. `answered` counts the items, from
// the first one on, that have their result, also if memory runs out (std::bad_alloc).
#pragma once

#include <span>

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

// The same by commands, of which no two that depend on each other are given at once.
void create_by_commands(VolumeImplementation& volume, const Caller& caller,
                        std::span<const Creation> creations, std::span<Result<Attributes>> results);
void move_by_commands(VolumeImplementation& volume, const Caller& caller,
                      std::span<const Move> moves, std::span<Errc> results);
void remove_by_commands(VolumeImplementation& volume, const Caller& caller,
                        std::span<const Unlink> names, std::span<Errc> results);
void look_up_by_commands(VolumeImplementation& volume, const Caller& caller,
                         std::span<const Lookup> lookups, std::span<Result<Attributes>> results);

}  // namespace warren
