// SPDX-License-Identifier: Apache-2.0
// How a command operates on a mounted volume: it asks the mount's daemon over a Unix socket, and
// one request replaces up to millions of system calls. Paths are those that the client sees. The
// kernel resolves them in the client's process, and a descriptor of the directory is sent; so the
// daemon follows no path and no symbolic link, and a client cannot name what it cannot reach.
//
// Invariant: when a call returns, the kernel shows its effect (stale names were dropped).
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "warren/volume.hpp"

namespace warren::ring {
class RemoteRing;
}

namespace warren::fuse {

/// What the daemon reports about its mount.
struct MountInfo {
    std::string image;
    std::string mountpoint;
    std::string label;
    std::string uuid;
    Statistics statistics;
    bool read_only = false;
    u32 process = 0;          // pid of the daemon
    std::string engine;       // what runs the operations: "cpu" or "cuda"
    std::string engine_note;  // see Volume::engine_note()
    std::string disk_note;    // see Volume::disk_note()
    u64 requests = 0;         // from the kernel, since the mount
    DedupStatistics dedup;
    std::vector<std::string> predictions;  // see Volume::predictions()
};

/// An item of ControlConnection::move(): rename(2) of `source` to `target`.
struct PathMove {
    std::string source;
    std::string target;
};

/// When reading a file updates its access time.
enum class AccessTimes : u8 { relative, always, never, unchanged };

class ControlConnection {
 public:
    /// Connects to the daemon of the mount that `path` lies on (the last component is not followed
    /// and need not exist). Returns nullopt if that is not a Warren mount or its daemon is
    /// unreachable.
    static std::optional<ControlConnection> for_path(const std::string& path);

    /// Connects to the daemon of the mount with this device number, without accessing a path on it.
    static std::optional<ControlConnection> for_device(u32 device_major, u32 device_minor);

    // Calls that read file contents or sizes first make the kernel write back its dirty pages, in
    // this process and with its rights.

    /// Removes `path` and everything below it.
    Errc remove_tree(const std::string& path, Removal& removal);
    /// Renames the items in order; `results` gets the error of each. Requires: equal sizes.
    Errc move(std::span<const PathMove> moves, std::span<Errc> results);
    /// Packs the tree of the directory at `path`.
    Errc rebuild(const std::string& path, Rebuilt& rebuilt);
    /// Visits `path` and everything below it that `filter` lets pass, directories before their
    /// entries, in the calling thread.
    Errc scan(const std::string& path, const ScanFilter& filter,
              const std::function<void(const Scanned&)>& visit);
    /// Adds up the usage of `path` and everything below it, like Volume::usage() but without
    /// handles.
    Errc usage(const std::string& path, const UsageOptions& options,
               std::vector<DirectoryUsage>& answer);
    /// Volume::clone() of `source`, whose last component is not followed, to `target`.
    Errc clone(const std::string& source, const std::string& target, ClonedTree& cloned);
    /// Volume::dedupe_range() of the files behind two descriptors, which are open for reading or
    /// writing. Permission is checked for this process, whatever mode the descriptors were opened
    /// with.
    Errc dedupe(int source, u64 offset, int target, u64 target_offset, u64 length,
                Deduped& deduped);
    /// Requests a ring, which lives as long as this connection. Errc::busy if the connection has
    /// one already, or the mount has as many as it can have.
    Errc open_ring(ring::RemoteRing& ring);
    /// Lets commands of the ring use the directories behind the descriptors, at most
    /// attach_directories_max; `handles` gets the handle of each. Requires: equal sizes.
    Errc attach(std::span<const int> directories, std::span<Result<Handle>> handles);
    static constexpr size_t attach_directories_max = 16;
    /// Whether the daemon has closed the connection.
    bool is_broken() const;
    /// Makes everything written so far durable on the volume that `path` lies on. Errc::stale: it
    /// lies on another one, because the volume was unmounted after connecting.
    Errc sync(const std::string& path);
    Errc info(MountInfo& info);
    /// Tells the daemon the new options of the mount. Root or the mount's owner only.
    Errc remount(bool read_only, AccessTimes access_times);
    /// Volume::release_device_memory(). Root or the mount's owner only.
    Errc release_device();

    /// Registers for a message when the volume is closed; returns when the daemon has confirmed
    /// that (Errc::busy if not within `patience_ms`). wait_until_closed() follows after unmounting.
    Errc ask_for_close(int patience_ms);
    /// Waits until the volume is closed and returns the result of closing it; Errc::busy if the
    /// volume is still mounted elsewhere after `patience_ms`.
    Errc wait_until_closed(int patience_ms);

 private:
    ControlConnection(Descriptor socket, u32 device_major, u32 device_minor)
        : socket_(std::move(socket)), device_major_(device_major), device_minor_(device_minor) {}
    Errc move_some(std::span<const PathMove> moves, std::span<Errc> results, size_t& done);

    Descriptor socket_;
    u32 device_major_;  // of the mount
    u32 device_minor_;
};

}  // namespace warren::fuse
