// SPDX-License-Identifier: Apache-2.0
// The mounts that a process sees (/proc/PID/mountinfo). Reading it sends no request to any file
// system, so it is safe even if one of them does not answer.
//
// Invariant: a complete snapshot; escapes in paths are decoded.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "warren/types.hpp"

namespace warren::fuse {

struct MountedPlace {
    u64 number = 0;  // mount ID, as in /proc/PID/fdinfo; unique while the mount exists
    u64 parent = 0;  // number of the mount that it is mounted on
    u32 device_major = 0;
    u32 device_minor = 0;
    std::string root;  // what of the file system is mounted; "" for all
    std::string mountpoint;
    std::string type;        // for instance "fuse.warren"
    std::string source;      // for Warren: the image
    std::string options;     // of the file system, such as user_id=...
    bool read_only = false;  // this mount is; the file system may be as well

    bool is_warren() const { return type == "fuse.warren"; }
    bool same_device(const MountedPlace& other) const {
        return device_major == other.device_major && device_minor == other.device_minor;
    }
};

/// All mounts, oldest first; as `process` sees them if that is not 0.
std::vector<MountedPlace> read_mount_table(u32 process = 0);

/// The most recent mount on this path. Requires: `path` is absolute and resolved.
std::optional<MountedPlace> top_mount_on(const std::string& path);

/// The number of the mount through which a file was opened; 0 if it cannot be found out.
u64 mount_of(int descriptor);

/// Likewise of the mount that a path leads to; a final link is not followed. The file system of
/// that mount gets no request.
u64 mount_at(const std::string& path);

/// Whether the path of a mount leads to another mount: to one on top of it, or on top of a
/// directory above it. False if a number is not known.
bool is_covered(const MountedPlace& mounted);

/// The mounts through which a peer has opened directories of this mount. It does not use
/// fstatvfs(3), which would send a request to the file system, and that may be the one this process
/// serves.
class PeerMounts {
 public:
    explicit PeerMounts(u32 process) : process_(process) {}

    /// Whether the mount through which `descriptor` was opened is read-only. A mount that is in the
    /// table of neither this process nor the peer counts as read-only.
    bool is_read_only(int descriptor);

 private:
    std::optional<bool> find(u64 number, u32 process, std::vector<MountedPlace>& table);

    u32 process_;
    std::vector<MountedPlace> ours_, theirs_;  // read when first needed
};

/// Whether `path`, or anything below it, is a mount point for this process. `mount` is the number
/// of the mount on which the path lies: like the kernel, this finds mount points also if they were
/// made by another path, through another mount of the file system. Requires: `path` is absolute and
/// resolved; if it ends with a slash, only what is below it counts.
bool is_mounted_below(const std::string& path, u64 mount);

/// The number after "name=" in comma-separated options; `missing` if there is none.
u32 option_number(std::string_view options, std::string_view name, u32 missing);

}  // namespace warren::fuse
