// SPDX-License-Identifier: Apache-2.0
// Opening a volume on any Disk: what Volume::open() does once it has opened the file or device.
// Tests use it on disks in memory, disks that fail and disks that lost power.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "fs/disk/disk.hpp"
#include "warren/volume.hpp"

namespace warren {

/// Settings for tests.
struct OpenChanges {
    u64 hash_mask = ~u64{0};  // names have only those bits of their hash
    /// Called before the first operation.
    std::function<void(VolumeImplementation&)> adjust = {};
    bool finishes_removals = false;  // orphans are freed before the volume is returned
};

/// Opens the volume on `disk`; `path` is for messages. Null and a filled `failure` if not possible.
std::unique_ptr<Volume> open_volume(std::unique_ptr<Disk> disk, const std::string& path,
                                    const OpenOptions& options, Failure& failure,
                                    const OpenChanges& changes = {});

}  // namespace warren
