// SPDX-License-Identifier: Apache-2.0
// Work in phases by threads that are running already: none begins a phase before all have ended the
// one before, so it needs no thread to be woken.
#pragma once

#include <atomic>
#include <thread>

#include "base/workers.hpp"

namespace warren {

/// Work that threads share: none of them goes on before all of it is done. Any number of them may
/// take part, even one.
class Phase {
 public:
    Phase(u64 count, u64 step) : counter_(count, step), left_(count) {}

    /// Calls `work(first, last)` for ranges of the numbers below the count; returns when the other
    /// threads have ended theirs, and sees what they did.
    template <class Work>
    void run_ranges(const Work& work) {
        static_assert(noexcept(work(u64{0}, u64{0})), "the others would wait forever");
        for (u64 first = 0, last = 0; counter_.take(first, last);) {
            work(first, last);
            left_.fetch_sub(last - first, std::memory_order_release);
        }
        while (left_.load(std::memory_order_acquire) != 0)
            std::this_thread::yield();
    }
    /// As above with `work(i)` for each number.
    template <class Work>
    void run(const Work& work) {
        run_ranges([&](u64 first, u64 last) noexcept(noexcept(work(u64{0}))) {
            for (u64 i = first; i < last; ++i)
                work(i);
        });
    }

 private:
    Counter counter_;
    std::atomic<u64> left_;
};

}  // namespace warren
