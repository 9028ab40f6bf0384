// SPDX-License-Identifier: Apache-2.0
// Operations on many names of a mounted volume without a system call for each: a ring in memory
// shared with the mount's daemon, whose engine takes thousands of commands at once. They run with
// the credentials that the process had when it opened the ring, as the kernel reports them. They
// name inodes by handle: of attached directories, and of what was found or made through this ring.
//
//   auto ring = MountRing::open("/mnt/w", failure);
//   const Result<Handle> in = ring->attach(::open("/mnt/w/in", O_PATH | O_DIRECTORY));
//   ring->unlink_many(names, results);     // each name is {*in, "..."}
//
// Invariant: when a call returns its effect is visible to every process. Sizes and times from a
// ring lack writes that the kernel still holds back; attach() flushes them. Threads may share a
// ring.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "warren/volume.hpp"

namespace warren {

class MountRing {
 public:
    /// How many directories can be attached to a ring. Each stays so until the ring is closed or
    /// the directory is removed.
    static constexpr std::size_t attached_max = std::size_t{1} << 16;
    /// How many of the other handles, found, made or used last, a ring accepts at least. An older
    /// one is answered with Errc::bad_handle: look its name up again.
    static constexpr std::size_t found_kept = std::size_t{1} << 19;

    /// Opens a ring of the mount that `path` lies in. Null and a filled `failure` if `path` is on
    /// no Warren mount, its daemon is out of reach, or it already has the maximum number of rings.
    static std::unique_ptr<MountRing> open(const std::string& path, Failure& failure);
    ~MountRing();
    MountRing(const MountRing&) = delete;
    MountRing& operator=(const MountRing&) = delete;

    /// The handle of an open directory, which may have been opened with O_PATH.
    /// Errc::too_many_files if attached_max others are attached: close the ring and open another.
    Result<Handle> attach(int directory);

    // Equal to the same calls of Volume, item by item and in order; `results` gets the result of
    // each: Errc::io if the daemon has ended.
    void lookup_many(std::span<const Lookup> names, std::span<Result<Attributes>> results);
    /// `umask` clears bits of the modes.
    void create_many(std::span<const Creation> creations, u32 umask,
                     std::span<Result<Attributes>> results);
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
