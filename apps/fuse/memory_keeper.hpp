// SPDX-License-Identifier: Apache-2.0
// A thread that returns memory to the system when a busy mount becomes idle: what the volume keeps
// for removed files, empty hash tables, and the memory that malloc caches for each thread. A mount
// that is never idle returns malloc's memory once a minute.
//
// Invariant: on an idle mount it only compares two counters every few seconds.
#pragma once

#include <thread>

#include "apps/fuse/mount_state.hpp"

namespace warren::fuse {

/// `may_commit`: also return what the volume keeps, for which a commit may be needed.
std::jthread start_memory_keeper(MountState& mount, bool may_commit);

}  // namespace warren::fuse
