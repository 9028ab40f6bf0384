// SPDX-License-Identifier: Apache-2.0
// Which Warren volumes are mounted where, from /proc/self/mountinfo.
//
// Invariant: a later line of the table covers an earlier one, as the kernel sees it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "warren/types.hpp"

namespace warren::cli {

struct Mount {
    std::string point;
    std::string image;  // as the daemon gave it to the kernel
    std::string type;   // "fuse.warren" for ours
    u64 device = 0;     // major << 32 | minor

    bool is_warren() const { return type == "fuse.warren"; }
};

/// All mounts of the machine, in the table's order.
std::vector<Mount> all_mounts();

/// The mount that holds an existing path, links in it followed but for the last component.
std::optional<Mount> mount_of_path(const std::string& path);

/// Where the image is mounted; empty if it is not.
std::string mount_point_of_image(const std::string& image);

}  // namespace warren::cli
