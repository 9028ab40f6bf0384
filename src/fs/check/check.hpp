// SPDX-License-Identifier: Apache-2.0
// The check of a volume on any Disk. check_volume() calls it once it has opened and locked the file
// or device.
//
// Invariant: without `repair` nothing is written. The check terminates and reads nothing outside of
// the disk, whatever bytes the volume contains.
#pragma once

#include <string>

#include "fs/disk/disk.hpp"
#include "warren/volume.hpp"

namespace warren {

/// As check_volume(). `hash_mask` clears bits of the name hash; tests make volumes with such hashes
/// to get collisions.
Failure check_disk(Disk& disk, const std::string& path, const CheckOptions& options,
                   CheckResult& result, u64 hash_mask = ~u64{0});

}  // namespace warren
