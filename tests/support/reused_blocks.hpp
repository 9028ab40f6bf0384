// SPDX-License-Identifier: Apache-2.0
// A workload that repeatedly fills a volume and empties it, in a different order each time, so that
// blocks, inode numbers and block groups change their owners: trees of names and of extents with
// nodes, extended attributes, long link targets, and more inodes than a block group has.
#pragma once

#include <memory>

#include "tests/support/memory_disk.hpp"

namespace warren {

/// The closed volume that the workload leaves; the disk's log has everything that was ever written.
std::unique_ptr<MemoryDisk> record_reused_blocks(u64 seed);

}  // namespace warren
