// SPDX-License-Identifier: Apache-2.0
// Limits how often a walk calls a file server.
//
// Invariant: within any second no more operations begin than the limit, on all threads together.
#pragma once

#include <time.h>

#include <atomic>

#include "warren/types.hpp"

namespace warren::walk {

class RateLimit {
 public:
    /// 0: unlimited.
    explicit RateLimit(u64 operations_per_second)
        : interval_(operations_per_second == 0 ? 0 : second / operations_per_second) {
        if (interval_ != 0) next_.store(now(), std::memory_order_relaxed);
    }

    /// Waits until one more operation may begin.
    void take() {
        if (interval_ == 0) return;
        // Each caller reserves the time at which its operation begins. Unused times in the past are
        // lost, so that no burst follows a pause.
        u64 next = next_.load(std::memory_order_relaxed);
        u64 mine = 0;
        do {
            const u64 present = now();
            mine = next > present ? next : present;
        } while (!next_.compare_exchange_weak(next, mine + interval_, std::memory_order_relaxed));
        timespec until{static_cast<time_t>(mine / second), static_cast<long>(mine % second)};
        while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) != 0) {
        }
    }

 private:
    static constexpr u64 second = 1'000'000'000;

    static u64 now() {
        timespec time{};
        ::clock_gettime(CLOCK_MONOTONIC, &time);
        return static_cast<u64>(time.tv_sec) * second + static_cast<u64>(time.tv_nsec);
    }

    u64 interval_;
    std::atomic<u64> next_{0};
};

}  // namespace warren::walk
