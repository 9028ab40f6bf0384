// SPDX-License-Identifier: Apache-2.0
// For work that must not use more than a part of a machine.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "warren/types.hpp"

namespace warren {

/// Spreads work over time: on average at most `per_second` units in a second. Unused capacity is
/// not saved for later.
class RateLimit {
 public:
    using Clock = std::chrono::steady_clock;

    /// 0: unlimited.
    explicit RateLimit(u64 per_second) : per_second_(per_second) {}

    /// Returns how long to wait after `amount` units were done, at time `now`. Waits shorter than a
    /// millisecond are accumulated.
    std::chrono::milliseconds pause_after(u64 amount, Clock::time_point now = Clock::now()) {
        if (per_second_ == 0) return {};
        const std::chrono::duration<double> takes(static_cast<double>(amount) /
                                                  static_cast<double>(per_second_));
        ready_ = std::max(ready_, now) + std::chrono::duration_cast<Clock::duration>(takes);
        return std::chrono::duration_cast<std::chrono::milliseconds>(ready_ - now);
    }
    /// Sleeps for pause_after(amount).
    void wait_after(u64 amount) { std::this_thread::sleep_for(pause_after(amount)); }

 private:
    const u64 per_second_;
    Clock::time_point ready_;
};

}  // namespace warren
