// SPDX-License-Identifier: Apache-2.0
// Recovers a mount whose GPU is lost, by a fault of its own or of another process that shares it:
// the volume is opened again with the CPU engine, in the state of the last commit, and the kernel
// is made to forget what is no longer true. Requests that were running have failed with EIO.
//
// Invariant: the thread that meets the loss records it without taking a lock; a separate thread
// that holds no lock exchanges the volume.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "apps/fuse/mount_state.hpp"

namespace warren::fuse {

class Recovery {
 public:
    Recovery() = default;
    ~Recovery() { stop(); }
    Recovery(const Recovery&) = delete;
    Recovery& operator=(const Recovery&) = delete;

    /// Records that the engine has stopped, and why; from any thread.
    void note_loss(const std::string& line);
    /// Enables the exchange after a loss. `mount` has its session and outlives stop().
    void start(MountState& mount);
    void stop();

 private:
    void run(MountState& mount);

    std::mutex mutex_;  // guards the members below except the thread
    std::condition_variable changed_;
    bool is_lost_ = false;
    bool is_ending_ = false;
    std::thread thread_;
};

}  // namespace warren::fuse
