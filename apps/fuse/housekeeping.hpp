// SPDX-License-Identifier: Apache-2.0
// Two threads besides those that serve requests: one commits every few seconds, one waits for
// signals and then has the watchdog unmount.
//
// Invariant: after a signal the kernel writes back its dirty pages while requests are still served;
// only then is the device closed.
#pragma once

#include <pthread.h>

#include <thread>

#include "apps/fuse/mount_state.hpp"
#include "apps/fuse/watchdog.hpp"
#include "base/descriptor.hpp"

namespace warren::fuse {

/// Commits every `seconds` if there are uncommitted changes; 0: never.
std::jthread start_committer(MountState& mount, u32 seconds);

/// Blocks the signals that end a daemon, in this thread and all threads that it starts. Requires:
/// no other thread was started yet.
void block_ending_signals();

/// Unmounts when a signal arrives.
class Terminator {
 public:
    /// `server` is the thread in Session::serve(); `hang_up`: SIGHUP counts too.
    Terminator(MountState& mount, Watchdog& watchdog, pthread_t server, bool hang_up);
    ~Terminator();
    Terminator(const Terminator&) = delete;
    Terminator& operator=(const Terminator&) = delete;

 private:
    enum class Event : u8 { none, signal, end, reply };

    void run();
    /// Waits `timeout_ms` (-1: indefinitely) for an event; with `awaits_reply` also for a reply of
    /// the watchdog.
    Event wait(int timeout_ms, bool awaits_reply = false);
    Event unmount_in_order();

    MountState& mount_;
    Watchdog& watchdog_;
    pthread_t server_;
    Descriptor signals_;
    Descriptor end_;
    std::thread thread_;
};

}  // namespace warren::fuse
