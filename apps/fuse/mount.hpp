// SPDX-License-Identifier: Apache-2.0
// Mounting a volume: options as mount(8) knows them, and the daemon that serves the mount.
//
// Invariant: mount_volume() returns success only when the mount answers; a failure leaves nothing
// mounted and says why in one line on stderr.
#pragma once

#include <string>
#include <vector>

#include "apps/fuse/control.hpp"
#include "apps/fuse/live_volume.hpp"
#include "apps/fuse/option_word.hpp"

namespace warren::fuse {

/// The largest read or write that the kernel sends as one request.
inline constexpr u32 request_limit_bytes = 1u << 20;

struct MountOptions {
    std::string program = "warren mount";  // opens every complaint
    std::string image;
    std::string mountpoint;
    bool foreground = false;
    bool read_only = false;
    bool writable = false;  // rw was asked for: do not fall back to read-only
    bool remount = false;
    bool allow_other = false;
    AccessTimes access_times = AccessTimes::unchanged;
    std::vector<std::string> flags;  // of mount(2), by name: nodev, nosuid, noexec, sync, ...
    u32 commit_seconds = 5;          // between commits; 0: only when asked to
    u32 threads = 0;                 // most that answer requests; 0: by the number of cores
    EngineChoice engine = EngineChoice::automatic;  // a remount leaves it as it is
    DiskAccess disk = DiskAccess::automatic;
    DataMode data = DataMode::ordered;
    ErrorMode errors = ErrorMode::remount_ro;
    u64 meta_buffer_bytes = 0;  // 0: all metadata in memory
    u64 file_buffer_bytes = 0;  // 0: the kernel's page cache is all that there is
    Dedup dedup = Dedup::as_made;
    u64 dedup_index_bytes = 0;  // 0: see OpenOptions
    u64 dedup_fill_bytes = OpenOptions{}.dedup_fill_bytes;
    VolumeOpener open = Volume::open;
};

/// Exit codes of mount(8) and umount(8).
inline constexpr int exit_usage = 1;
inline constexpr int exit_mount_failed = 32;

/// Adds comma-separated options as behind -o. False, and `error` says why, if one makes no sense.
bool add_mount_options(const std::string& text, MountOptions& options, std::string& error);

/// What may stand behind -o. A name that ends with '*' is the beginning of any word.
std::vector<OptionWord> mount_option_words();

/// Mounts, or changes the mount if options.remount is set. Answers the exit code; in the
/// foreground only when the mount is gone again.
int mount_volume(const MountOptions& options);

struct UnmountOptions {
    bool lazy = false;   // now, even if it is in use
    bool force = false;  // cut the connection first: the daemon and the path are not asked
};

/// Unmounts what is mounted on `place` (or the image of that name) and waits until the volume is
/// closed. Answers the exit code.
int unmount_volume(const std::string& program, const std::string& place, UnmountOptions options);

}  // namespace warren::fuse
