// SPDX-License-Identifier: Apache-2.0
// The step that all ways of sharing contents end in: see volume_sharing.cpp.
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

/// Puts whole blocks of the source, the last one of the range included, and its holes in the place
/// of what the target has, which becomes as long as the range's end at least. Requires: the
/// exclusive data locks of both files; both offsets begin blocks; in one file, no block is in both
/// ranges; where the range ends within a block, so do both files. Sets `done`, also where it fails:
/// so many bytes of the range are shared, and the target is as long as they need.
Errc share_blocks(VolumeImplementation& volume, const SharedRange& range, u64& done);

}  // namespace warren
