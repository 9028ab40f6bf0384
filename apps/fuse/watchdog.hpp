// SPDX-License-Identifier: Apache-2.0
// A small process beside a mount's daemon, for what the daemon must not do itself.
//
// A thread that waits in the kernel for an answer of its own mount cannot be killed, and keeps the
// daemon's descriptors. While /dev/fuse is open the kernel waits for an answer that never comes. So
// all calls that may ask the mount are made here, and when the daemon dies this process aborts the
// connection, which ends all such waits (a notification of the daemon's may wait for a lock held by
// a process that waits for the daemon).
//
// Invariant: the process has none of the daemon's descriptors, a session and a root directory of
// its own, and ends with the daemon. It touches the mount only in children, so it never waits for
// it.
#pragma once

#include <sys/types.h>

#include <string>

#include "apps/fuse/mount.hpp"
#include "base/descriptor.hpp"

namespace warren::fuse {

class Watchdog {
 public:
    Watchdog() = default;
    ~Watchdog();  // ends the process
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;

    /// Starts the process; the errno if that fails. Requires: the caller is the process's first
    /// thread, its only one, and ends only with the process; nothing is open that must be closed.
    Errc start(const MountOptions& options);
    /// From now on aborts this connection when the daemon dies. An error: the kernel offers no way.
    Errc guard(u32 device_minor);
    /// Waits until the mount answers, and sets the flags that libfuse could not set.
    Errc finish_mount();

    // For one thread at a time, beside the others.
    /// Begins to write out what the kernel holds back, and to unmount; in use, the mount is taken
    /// out of the tree and lives on. reply() tells how it went once descriptor() is readable:
    /// Errc::busy if it lives on.
    void begin_unmount();
    int descriptor() const { return later_.get(); }
    Errc reply();
    /// Cuts the connection. Requires: no reply is awaited, or nobody wants it any more.
    void abort();

 private:
    Descriptor at_once_;  // for questions that are answered before the next
    Descriptor later_;    // for those of begin_unmount() and abort()
    pid_t process_ = -1;
};

}  // namespace warren::fuse
