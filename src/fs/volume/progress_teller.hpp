// SPDX-License-Identifier: Apache-2.0
// Reports the progress of a bulk operation to its caller, at most ten times a second.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "warren/volume.hpp"

namespace warren {

/// Shared by all workers of an operation. Only the thread that constructs it calls the callback.
class ProgressTeller {
 public:
    explicit ProgressTeller(const ProgressCallback& progress) : progress_(progress) {}

    /// Whether to continue. `count()` returns how many names are done; called only for a report.
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
    Clock::time_point next_{};  // the first report is immediate
    std::atomic<bool> is_stopped_{false};
};

}  // namespace warren
