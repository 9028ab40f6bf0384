// SPDX-License-Identifier: Apache-2.0
// Makes the kernel write out what it holds back of our mount. Whoever asks for that sleeps, deaf to
// signals, until we have answered the kernel's writes; a thread of ours would keep the device open
// even when we are killed, and then nobody could ever wake it. So a process of its own asks.
//
// Invariant: the process holds neither the device nor the image nor anything else of ours; it ends
// when we do.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "apps/fuse/descriptor.hpp"
#include "warren/types.hpp"

namespace warren::fuse {

/// How a request to write out ended.
enum class Flushed : u8 {
    done,       // what was held back at that time is written
    elsewhere,  // not ours: another file system hides the mount, or we may not open it
    ended       // stop() was called; maybe nothing was written
};

class Flusher {
 public:
    /// Starts the process. Requires: no other thread is running, and the signals are blocked that
    /// end a daemon.
    Flusher();
    Flusher(const Flusher&) = delete;
    Flusher& operator=(const Flusher&) = delete;

    /// Writes out what the kernel holds back of the mount at `mountpoint` with this device number.
    Flushed flush(const std::string& mountpoint, u32 device_major, u32 device_minor);
    /// Ends flush(), now and later. Afterwards nobody may wait for the kernel to write.
    void stop();

 private:
    Descriptor socket_;
    std::mutex mutex_;
    std::atomic<bool> stopped_{false};
};

}  // namespace warren::fuse
