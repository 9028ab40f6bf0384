// SPDX-License-Identifier: Apache-2.0
// What is mounted where, as this process sees it (/proc/self/mountinfo).
//
// Invariant: a snapshot, read whole; paths have their escapes undone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "warren/types.hpp"

namespace warren::fuse {

struct MountedPlace {
    u32 device_major = 0;
    u32 device_minor = 0;
    std::string mountpoint;
    std::string type;     // for instance "fuse.warren"
    std::string source;   // the image, for ours
    std::string options;  // of the file system: user_id=... and so on

    bool is_warren() const { return type == "fuse.warren"; }
    bool same_device(const MountedPlace& other) const {
        return device_major == other.device_major && device_minor == other.device_minor;
    }
};

/// All mounts, in the order in which they were made.
std::vector<MountedPlace> read_mount_table();

/// Whether something is mounted on `path` or below it. Requires: `path` is absolute and resolved.
bool is_mounted_below(const std::string& path);

/// The number behind "name=" in comma-separated options; `missing` if it is not there.
u32 option_number(std::string_view options, std::string_view name, u32 missing);

}  // namespace warren::fuse
