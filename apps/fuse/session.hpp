// SPDX-License-Identifier: Apache-2.0
// The session with the kernel: made from the options, mounted, served by a pool of threads.
//
// Invariant: what is mounted is unmounted, and its device closed, before the session is gone.
#pragma once

#include <string>

#include "apps/fuse/mount.hpp"
#include "apps/fuse/mount_state.hpp"

namespace warren::fuse {

class Session {
 public:
    Session() = default;
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    /// Mounts on options.mountpoint. False, and `error` says why, if that fails.
    bool mount(const MountOptions& options, MountState& mount, std::string& error);
    /// Answers requests until the file system is unmounted or exit() was called. 0, or an errno.
    int serve(const MountOptions& options);
    /// Unmounts if that has not been done, and closes the device.
    void unmount();

    fuse_session* get() const { return session_; }

 private:
    fuse_session* session_ = nullptr;
    bool mounted_ = false;
};

}  // namespace warren::fuse
