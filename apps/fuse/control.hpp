// SPDX-License-Identifier: Apache-2.0
// How a command works on a mounted volume: it asks the mount's daemon over a Unix socket, and one
// request does what would be a million system calls. Paths are given as anywhere else on the
// system; they are resolved by the kernel on the client's side, and what is sent is a descriptor of
// the directory, so the daemon follows no path and no symbolic link, and a client cannot name what
// it could not reach.
//
// Invariant: at return of a call the kernel shows what the call did (stale names are dropped).
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/descriptor.hpp"
#include "warren/volume.hpp"

namespace warren::ring {
class RemoteRing;
}

namespace warren::fuse {

/// What the daemon of a mount says about it.
struct MountInfo {
    std::string image;
    std::string mountpoint;
    std::string label;
    std::string uuid;
    Statistics statistics;
    bool read_only = false;
    u32 process = 0;          // the daemon's process number
    std::string engine;       // what runs the operations: "cpu" or "cuda"
    std::string engine_note;  // see Volume::engine_note()
    std::string disk_note;    // see Volume::disk_note()
    u64 requests = 0;         // of the kernel, since the mount
    DedupStatistics dedup;
};

/// One item of ControlConnection::move(): rename(2) of `source` to `target`.
struct PathMove {
    std::string source;
    std::string target;
};

/// When reading a file updates the time of its last access.
enum class AccessTimes : u8 { relative, always, never, unchanged };

class ControlConnection {
 public:
    /// The daemon of the mount that `path` lies in (the last component is not followed and need
    /// not be there); nothing if that is no Warren mount or its daemon is out of reach.
    static std::optional<ControlConnection> for_path(const std::string& path);

    /// The daemon of the mount with this device number; touches no path on it.
    static std::optional<ControlConnection> for_device(u32 device_major, u32 device_minor);

    // Calls that read what the volume knows of files have the kernel write out first what it holds
    // back, in this process and with its rights.

    /// Removes `path` and all below it.
    Errc remove_tree(const std::string& path, Removal& removal);
    /// Renames item by item, in order; `results` gets the error of each. Requires: equal sizes.
    Errc move(std::span<const PathMove> moves, std::span<Errc> results);
    /// Packs the tree of the directory at `path`.
    Errc rebuild(const std::string& path, Rebuilt& rebuilt);
    /// Visits `path` and all below it that `filter` lets pass, directories before their entries, in
    /// the calling thread.
    Errc scan(const std::string& path, const ScanFilter& filter,
              const std::function<void(const Scanned&)>& visit);
    /// Adds up what `path` and all below it take, as Volume::usage() does but for the handles.
    Errc usage(const std::string& path, const UsageOptions& options,
               std::vector<DirectoryUsage>& answer);
    /// Volume::clone() of `source`, whose last component is not followed, to `target`.
    Errc clone(const std::string& source, const std::string& target, ClonedTree& cloned);
    /// Volume::dedupe_range() of the files behind two descriptors, which are open for reading or
    /// writing; rights are those of this process, whatever the descriptors are open for.
    Errc dedupe(int source, u64 offset, int target, u64 target_offset, u64 length,
                Deduped& deduped);
    /// Asks for a ring of this connection's own, which lives as long as it does. Errc::busy if the
    /// connection has one, or the mount as many as it can have.
    Errc open_ring(ring::RemoteRing& ring);
    /// Lets commands of the ring name the directories behind descriptors, at most
    /// attach_directories_max; `handles` gets the handle of each. Requires: equal sizes.
    Errc attach(std::span<const int> directories, std::span<Result<Handle>> handles);
    static constexpr size_t attach_directories_max = 128;
    /// Whether the daemon has gone.
    bool is_broken() const;
    /// Makes everything written so far durable on the volume that `path` lies on.
    Errc sync(const std::string& path);
    Errc info(MountInfo& info);
    /// Tells the daemon what the mount's options are now. Root or the mount's owner only.
    Errc remount(bool read_only, AccessTimes access_times);

    /// Asks to be told when the volume is closed, and returns when the daemon has heard it (busy if
    /// it does not within `patience_ms`); wait_until_closed() follows after unmounting.
    Errc ask_for_close(int patience_ms);
    /// Waits until the volume is closed and answers how that went; Errc::busy if the volume is
    /// still in use elsewhere after `patience_ms`.
    Errc wait_until_closed(int patience_ms);

 private:
    explicit ControlConnection(Descriptor socket) : socket_(std::move(socket)) {}
    Errc move_some(std::span<const PathMove> moves, std::span<Errc> results, size_t& done);

    Descriptor socket_;
};

}  // namespace warren::fuse
