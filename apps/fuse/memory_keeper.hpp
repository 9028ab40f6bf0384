// SPDX-License-Identifier: Apache-2.0
// A thread that gives memory back to the system when a mount that was busy is at rest: what the
// volume keeps of removed files, empty hash tables, and what malloc keeps of freed memory for each
// thread. A mount that is never at rest gives back what malloc keeps once a minute.
//
// Invariant: a mount at rest costs a look at two counters every few seconds.
#pragma once

#include <thread>

#include "apps/fuse/mount_state.hpp"

namespace warren::fuse {

/// `may_commit`: what the volume keeps is given back too, which may take a commit.
std::jthread start_memory_keeper(MountState& mount, bool may_commit);

}  // namespace warren::fuse
