// SPDX-License-Identifier: Apache-2.0
// Making and growing a volume on any Disk. make_volume() and grow_volume() call these functions
// once they have opened, locked and sized the file or device; tests call them on disks that fail or
// lose power.
//
// Invariant: a crash at any moment leaves either the old state (no volume, or the smaller one) or
// the new one.
#pragma once

#include <string>

#include "fs/disk/disk.hpp"
#include "warren/volume.hpp"

namespace warren {

/// Makes an empty volume in the first `size_bytes` of `disk`, whatever they contain. Fails if a
/// volume cannot have that size. `dedup`: see FormatOptions. Requires: the disk is that large.
Failure make_volume_on(Disk& disk, const std::string& path, u64 size_bytes,
                       const std::string& label, bool dedup = false);

/// Replays the journal of the volume on `disk` and grows the volume to `size_bytes`, rounded down
/// to whole frames. Requires: the disk is that large.
Failure grow_volume_on(Disk& disk, const std::string& path, u64 size_bytes);

}  // namespace warren
