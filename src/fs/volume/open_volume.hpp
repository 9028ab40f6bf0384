// SPDX-License-Identifier: Apache-2.0
// Opens a volume on any Disk: the part of Volume::open() after the file or device was opened. Tests
// use it on disks in memory, disks that fail and disks that lose power.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "fs/disk/disk.hpp"
#include "warren/volume.hpp"

namespace warren {

/// Options for tests.
struct OpenChanges {
    u64 hash_mask = ~u64{0};  // the bits of hashes that names keep
    /// Called before the first operation.
    std::function<void(VolumeImplementation&)> adjust = {};
    bool finishes_removals = false;  // orphans are freed before open_volume() returns
};

/// Opens the volume on `disk`; `path` is for messages. On an error, fills `failure` and returns
/// null.
std::unique_ptr<Volume> open_volume(std::unique_ptr<Disk> disk, const std::string& path,
                                    const OpenOptions& options, Failure& failure,
                                    const OpenChanges& changes = {});

}  // namespace warren
