// SPDX-License-Identifier: Apache-2.0
// What is mounted where, as a process sees it (/proc/PID/mountinfo). No file system is asked for
// it, so it is safe where one of them may not answer.
//
// Invariant: a snapshot, read whole; paths have their escapes undone.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "warren/types.hpp"

namespace warren::fuse {

struct MountedPlace {
    u64 number = 0;  // of this mount, as in /proc/PID/fdinfo; nobody else's while it lives
    u32 device_major = 0;
    u32 device_minor = 0;
    std::string mountpoint;
    std::string type;        // for instance "fuse.warren"
    std::string source;      // the image, for ours
    std::string options;     // of the file system: user_id=... and so on
    bool read_only = false;  // through this mount; the file system may be so as well

    bool is_warren() const { return type == "fuse.warren"; }
    bool same_device(const MountedPlace& other) const {
        return device_major == other.device_major && device_minor == other.device_minor;
    }
};

/// All mounts, in the order in which they were made; as `process` sees them if that is not 0.
std::vector<MountedPlace> read_mount_table(u32 process = 0);

/// The mount that was made last on this path. Requires: `path` is absolute and resolved.
std::optional<MountedPlace> top_mount_on(const std::string& path);

/// What the mounts are by which a peer holds directories of ours. Its descriptors are not asked:
/// fstatvfs(3) would ask the file system, which may be the one that the caller serves.
class PeerMounts {
 public:
    explicit PeerMounts(u32 process) : process_(process) {}

    /// Whether the mount that `descriptor` was opened through is read-only. A mount that neither
    /// this process nor the peer has in its table counts as read-only.
    bool is_read_only(int descriptor);

 private:
    std::optional<bool> find(u64 number, u32 process, std::vector<MountedPlace>& table);

    u32 process_;
    std::vector<MountedPlace> ours_, theirs_;  // read when first needed
};

/// Whether something is mounted on `path` or below it. Requires: `path` is absolute and resolved.
bool is_mounted_below(const std::string& path);

/// The number behind "name=" in comma-separated options; `missing` if it is not there.
u32 option_number(std::string_view options, std::string_view name, u32 missing);

}  // namespace warren::fuse
