// SPDX-License-Identifier: Apache-2.0
// Two threads beside those that answer the kernel: one commits every few seconds, one waits for
// signals and then has the watchdog unmount.
//
// Invariant: a signal ends the mount in order: the kernel writes out what it holds back while
// requests are still answered, and only then does the device close.
#pragma once

#include <pthread.h>

#include <thread>

#include "apps/fuse/mount_state.hpp"
#include "apps/fuse/watchdog.hpp"
#include "base/descriptor.hpp"

namespace warren::fuse {

/// Commits every `seconds` if the volume has something unsaved; 0: never.
std::jthread start_committer(MountState& mount, u32 seconds);

/// Blocks the signals that end a daemon, for this thread and all that it starts. Requires: called
/// before any thread is started.
void block_ending_signals();

/// Unmounts when a signal asks for the end.
class Terminator {
 public:
    /// `server` is the thread in Session::serve(); `hang_up` says whether SIGHUP counts.
    Terminator(MountState& mount, Watchdog& watchdog, pthread_t server, bool hang_up);
    ~Terminator();
    Terminator(const Terminator&) = delete;
    Terminator& operator=(const Terminator&) = delete;

 private:
    enum class Event : u8 { none, signal, end, reply };

    void run();
    /// Waits `timeout_ms` (-1: for ever) for an event; with `awaits_reply`, one of the watchdog
    /// too.
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
