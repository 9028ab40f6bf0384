// SPDX-License-Identifier: Apache-2.0
// A workload that fills a volume, empties it and fills it again, in another order each time, so
// that blocks, inode numbers and frames belong to ever other owners: trees of names and of extents
// with nodes, extended attributes, long link targets, and more inodes than a frame has.
#pragma once

#include <memory>

#include "tests/support/memory_disk.hpp"

namespace warren {

/// The closed volume that it leaves, and in the disk's log all that was ever written.
std::unique_ptr<MemoryDisk> record_reused_blocks(u64 seed);

}  // namespace warren
