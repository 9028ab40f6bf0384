// SPDX-License-Identifier: Apache-2.0
// Making and growing a volume on any Disk: what make_volume() and grow_volume() do once they have
// opened, locked and sized the file or device. Tests use them on disks that fail or lose power.
//
// Invariant: a crash at any moment leaves the old state (no volume, or the smaller one) or the new
// one.
#pragma once

#include <functional>
#include <string>

#include "fs/disk/disk.hpp"
#include "warren/volume.hpp"

namespace warren {

/// Makes a range of a disk read as zeros. Empty: by writing them.
using ZeroRange = std::function<Errc(u64 offset, u64 length_bytes)>;

/// Makes an empty volume in the first `size_bytes` of `disk`, whatever it holds. Requires: a size
/// that a volume may have. `dedup`: see FormatOptions.
Failure make_volume_on(Disk& disk, const std::string& path, u64 size_bytes,
                       const std::string& label, const ZeroRange& zero = {}, bool dedup = false);

/// Replays the journal of the volume on `disk` and makes it `size_bytes` large, rounded down to
/// frames. Requires: the disk is that large.
Failure grow_volume_on(Disk& disk, const std::string& path, u64 size_bytes,
                       const ZeroRange& zero = {});

/// Writes zeros to a range through `zero`, or by ordinary writes if that is empty.
Errc zero_range(Disk& disk, u64 offset, u64 length_bytes, const ZeroRange& zero);

}  // namespace warren
