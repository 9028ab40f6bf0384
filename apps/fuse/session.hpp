// SPDX-License-Identifier: Apache-2.0
// The session with the kernel: created from the options, mounted, and served by a pool of threads.
//
// Invariant: the session unmounts and closes the device before it is destroyed.
#pragma once

#include <string>

#include "apps/fuse/mount.hpp"
#include "apps/fuse/mount_state.hpp"
#include "apps/fuse/mount_table.hpp"

namespace warren::fuse {

/// Whether the kernel has ended the connection. Before that it gives the device number of the mount
/// to no other file system.
bool has_ended(fuse_session* session);

class Session {
 public:
    Session() = default;
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    /// Mounts on options.mountpoint. Returns false, with the reason in `error`, if that fails.
    bool mount(const MountOptions& options, MountState& mount, std::string& error);
    /// Serves requests until the file system is unmounted or exits. Returns 0 or an errno.
    int serve(const MountOptions& options);
    /// Unmounts unless that was done or another mount covers it, and closes the device.
    void unmount();

    fuse_session* get() const { return session_; }

 private:
    fuse_session* session_ = nullptr;
    bool mounted_ = false;
    MountedPlace place_;  // its path and number
};

}  // namespace warren::fuse
