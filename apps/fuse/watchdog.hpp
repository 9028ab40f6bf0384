// SPDX-License-Identifier: Apache-2.0
// A small process beside a mount's daemon, for calls that the daemon must not make itself.
//
// A thread that waits in the kernel for an answer of its own mount cannot be killed, and keeps the
// daemon's descriptors open. While /dev/fuse is open the kernel waits for an answer that never
// comes. So all calls that may send requests to the mount are made here; and when the daemon dies
// this process aborts the connection, which ends all such waits (even a notification by the daemon
// may wait for a lock held by a process that waits for the daemon).
//
// Invariant: the process has none of the daemon's descriptors, a session and a root directory of
// its own, and ends with the daemon. It accesses the mount only in child processes, so it never
// blocks on it.
#pragma once

#include <sys/types.h>

#include <string>

#include "apps/fuse/mount.hpp"
#include "apps/fuse/mount_table.hpp"
#include "base/descriptor.hpp"

namespace warren::fuse {

class Watchdog {
 public:
    Watchdog() = default;
    ~Watchdog();  // ends the process
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;

    /// Starts the process; returns the errno if that fails. Requires: the caller is the daemon's
    /// main thread and its only one, and ends only with the process; no descriptor is open whose
    /// closing matters, since the process closes all that it inherits.
    Errc start(const MountOptions& options);
    /// Names the daemon's mount. From now on aborts its connection when the daemon dies. Fails if
    /// the kernel offers no way.
    Errc guard(const MountedPlace& mounted);
    /// Waits until the mount answers, and sets the mount flags that libfuse cannot set.
    Errc finish_mount();

    // Used by one thread at a time; the calls above may run concurrently.
    /// Begins to write back the kernel's dirty pages and to unmount. A mount that is in use is
    /// detached from the tree and continues. reply() returns the result once descriptor() is
    /// readable: Errc::busy if the mount continues, Errc::exists if another one covers it.
    void begin_unmount();
    int descriptor() const { return later_.get(); }
    Errc reply();
    /// Aborts the connection. Requires: no reply is pending, or none is wanted any more.
    void abort();

 private:
    Descriptor at_once_;  // for requests that are answered before the next
    Descriptor later_;    // for begin_unmount() and abort()
    pid_t process_ = -1;
};

}  // namespace warren::fuse
