// SPDX-License-Identifier: Apache-2.0
// What happens to a mount whose GPU is lost, by a fault of its own or of another process that
// shares it: the volume is opened again on the CPU engine, as its last commit left it, and the
// kernel forgets what is no longer so. Requests that were under way have failed with EIO.
//
// Invariant: the thread that meets the loss notes it without taking a lock; the exchange is made by
// a separate thread that holds no lock.
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

    /// Notes that the engine has stopped, and why. From any thread.
    void note_loss(const std::string& line);
    /// From now on a loss leads to the exchange. `mount` has its session and outlives stop().
    void start(MountState& mount);
    void stop();

 private:
    void run(MountState& mount);

    std::mutex mutex_;  // guards what follows but the thread
    std::condition_variable changed_;
    bool is_lost_ = false;
    bool is_ending_ = false;
    std::thread thread_;
};

}  // namespace warren::fuse
