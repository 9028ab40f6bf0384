// SPDX-License-Identifier: Apache-2.0
// Operations on many names of a mounted volume without a system call for each. The ring is memory
// shared with the mount's daemon, whose engine runs thousands of commands at once, with the
// credentials that the kernel reports for the process that opened the ring. Inodes are named by
// handles: those of attached directories, and those found or created through this ring.
//
//   auto ring = MountRing::open("/mnt/w", failure);
//   const Result<Handle> in = ring->attach(::open("/mnt/w/in", O_PATH | O_DIRECTORY));
//   ring->unlink_many(names, results);     // each name is {*in, "..."}
//
// Invariant: when a call returns, its effect is visible to every process. Sizes and times reported
// by a ring do not include writes that the kernel still caches; attach() flushes them. A ring can
// be used by several threads at once.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "warren/volume.hpp"

namespace warren {

class MountRing {
 public:
    /// How many directories can be attached to a ring. Each stays attached until the ring is closed
    /// or the directory is removed.
    static constexpr std::size_t attached_max = std::size_t{1} << 16;
    /// How many of the other handles that were last found, created or used a ring accepts at least.
    /// For an older one the error is Errc::bad_handle: look up its name again.
    static constexpr std::size_t found_kept = std::size_t{1} << 19;

    /// Opens a ring of the mount that contains `path`. Returns null and sets `failure` if `path` is
    /// not on a Warren mount, the mount's daemon cannot be reached, or it already has the maximum
    /// number of rings.
    static std::unique_ptr<MountRing> open(const std::string& path, Failure& failure);
    ~MountRing();
    MountRing(const MountRing&) = delete;
    MountRing& operator=(const MountRing&) = delete;

    /// Returns the handle of an open directory, which may have been opened with O_PATH.
    /// Errc::too_many_files: attached_max others are attached; close the ring and open another.
    Result<Handle> attach(int directory);

    // These behave like the corresponding calls of Volume, item by item and in order. results[i]
    // receives the result of item i: Errc::io if the daemon has terminated.
    void lookup_many(std::span<const Lookup> names, std::span<Result<Attributes>> results);
    /// Bits set in `umask` are cleared from the modes.
    void create_many(std::span<const Creation> creations, u32 umask,
                     std::span<Result<Attributes>> results);
    // Mount points are not looked for. Where unlink(2), rmdir(2) and rename(2) return EBUSY because
    // a name is a mount point, these calls remove or move it, and the kernel detaches the mounts.
    void unlink_many(std::span<const Lookup> names, std::span<Errc> results);
    void remove_directories(std::span<const Lookup> names, std::span<Errc> results);
    void move_many(std::span<const Move> moves, std::span<Errc> results);
    void attributes_many(std::span<const Handle> files, std::span<Result<Attributes>> results);

 private:
    class Implementation;
    explicit MountRing(std::unique_ptr<Implementation> implementation);
    std::unique_ptr<Implementation> implementation_;
};

}  // namespace warren
