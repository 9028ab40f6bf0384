// SPDX-License-Identifier: Apache-2.0
// Mounting a volume: the options of mount(8), and the daemon that serves the mount.
//
// Invariant: mount_volume() returns success only when the mount answers requests; a failure leaves
// nothing mounted and prints its reason as one line on stderr.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/fuse/control.hpp"
#include "apps/fuse/live_volume.hpp"
#include "apps/fuse/option_word.hpp"

namespace warren::fuse {

/// The largest read or write that the kernel sends as one request.
inline constexpr u32 request_limit_bytes = 1u << 20;

struct MountOptions {
    std::string program = "warren mount";  // begins every error message
    std::string image;
    std::string mountpoint;
    bool foreground = false;
    bool read_only = false;
    bool writable = false;  // rw was given: do not fall back to read-only
    bool remount = false;
    bool allow_other = false;
    AccessTimes access_times = AccessTimes::unchanged;
    std::vector<std::string> flags;  // of mount(2), by name: nodev, nosuid, noexec, sync, ...
    u32 commit_seconds = 5;          // between commits; 0: only on request
    u32 threads = 0;                 // most threads; 0: by the number of cores
    EngineChoice engine = EngineChoice::automatic;  // a remount does not change it
    DiskAccess disk = DiskAccess::automatic;
    DataMode data = DataMode::ordered;
    ErrorMode errors = ErrorMode::remount_ro;
    u64 meta_buffer_bytes = 0;    // 0: all metadata in memory
    u64 file_buffer_bytes = 0;    // 0: only the kernel's page cache
    std::optional<u32> device;    // the number of the GPU; none: 0, if one is used
    u64 device_memory_bytes = 0;  // 0: see OpenOptions
    Dedup dedup = Dedup::as_made;
    u64 dedup_index_bytes = 0;  // 0: see OpenOptions
    u64 dedup_fill_bytes = OpenOptions{}.dedup_fill_bytes;
    VolumeOpener open = Volume::open;
};

/// Exit codes of mount(8) and umount(8).
inline constexpr int exit_usage = 1;
inline constexpr int exit_mount_failed = 32;

/// Adds comma-separated options of -o. Returns false, with the reason in `error`, if one is
/// invalid.
bool add_mount_options(const std::string& text, MountOptions& options, std::string& error);

/// The options that -o accepts. A name that ends with '*' is a prefix of accepted words.
std::vector<OptionWord> mount_option_words();

/// Mounts, or changes the mount if options.remount is set. Returns the exit code; in the foreground
/// only after the mount has ended.
int mount_volume(const MountOptions& options);

struct UnmountOptions {
    bool lazy = false;   // at once, even if it is in use
    bool force = false;  // abort the connection first, without using the daemon or the path
};

/// Unmounts what is mounted on `place` (or the image of that name) and waits until the volume is
/// closed. Returns the exit code.
int unmount_volume(const std::string& program, const std::string& place, UnmountOptions options);

}  // namespace warren::fuse
