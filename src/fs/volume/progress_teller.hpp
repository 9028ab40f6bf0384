// SPDX-License-Identifier: Apache-2.0
// Tells the caller of a bulk operation how far it is, ten times a second.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "warren/volume.hpp"

namespace warren {

/// For all workers of the operation; made in the caller's thread, the only one that tells.
class ProgressTeller {
 public:
    explicit ProgressTeller(const ProgressCallback& progress) : progress_(progress) {}

    /// Whether to go on. `count()` returns the names that are done; called only to tell them.
    template <class Count>
    bool goes_on(const Count& count) {
        if (!progress_) return true;
        if (std::this_thread::get_id() == caller_ && Clock::now() >= next_ && !is_stopped()) {
            if (!progress_(count())) is_stopped_.store(true, std::memory_order_relaxed);
            next_ = Clock::now() + pause;
        }
        return !is_stopped();
    }
    bool is_stopped() const { return is_stopped_.load(std::memory_order_relaxed); }

 private:
    using Clock = std::chrono::steady_clock;
    static constexpr std::chrono::milliseconds pause{100};

    const ProgressCallback& progress_;
    const std::thread::id caller_ = std::this_thread::get_id();
    Clock::time_point next_{};  // the first time at once
    std::atomic<bool> is_stopped_{false};
};

}  // namespace warren
