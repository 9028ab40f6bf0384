// SPDX-License-Identifier: Apache-2.0
// Shares whole blocks between files: the last step of all calls that share contents
// (volume_sharing.cpp).
#pragma once

#include "fs/volume/volume_implementation.hpp"

namespace warren {

struct SharedRange {
    Handle source;
    Handle target;
    u64 offset;
    u64 target_offset;
    u64 length;  // bytes
    i64 now;
};

/// Replaces whole blocks of the target by those of the source, including the last block of the
/// range and holes. The target becomes at least as long as the end of the range. Requires: the
/// exclusive data locks of both files; both offsets are block-aligned; within one file, the blocks
/// of the ranges do not overlap; a range that ends within a block ends where both files end. Sets
/// `done`, even on an error: this many bytes of the range are shared, and the target is long enough
/// for them.
Errc share_blocks(VolumeImplementation& volume, const SharedRange& range, u64& done);

}  // namespace warren
