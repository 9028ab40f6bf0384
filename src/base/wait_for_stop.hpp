// SPDX-License-Identifier: Apache-2.0
// For a std::jthread that works at intervals.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>

namespace warren {

/// Waits until a stop is requested, but at most `time`. Returns whether it was. Allocates no
/// memory.
inline bool wait_for_stop(const std::stop_token& stop, std::chrono::milliseconds time) {
    std::mutex mutex;
    std::condition_variable wake;
    const std::stop_callback on_stop(stop, [&] {
        const std::lock_guard lock(mutex);  // so the notification cannot fall between test and wait
        wake.notify_one();
    });
    std::unique_lock lock(mutex);
    return wake.wait_for(lock, time, [&] { return stop.stop_requested(); });
}

}  // namespace warren
