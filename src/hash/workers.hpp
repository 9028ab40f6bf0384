// SPDX-License-Identifier: Apache-2.0
// The CPU's cores for one call: some threads that all run the same function and take their work
// from a common counter.
//
// Invariant: all threads have ended when run() returns.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>

#include "warren/hash.hpp"

namespace warren::hash {

/// How many threads `bytes` of work are worth, of those that the options allow.
u32 threads_for(const Options& options, u64 bytes);

/// Runs `work` on that many threads, the calling one among them.
void run(u32 threads, const std::function<void()>& work);

/// Hands out [0, count) in ranges of `step`.
class Counter {
 public:
    Counter(u64 count, u64 step) : count_(count), step_(step) {}

    /// The next range; false if there is none left.
    bool take(u64& first, u64& last) {
        first = next_.fetch_add(step_, std::memory_order_relaxed);
        if (first >= count_) return false;
        last = count_ - first < step_ ? count_ : first + step_;
        return true;
    }

 private:
    u64 count_;
    u64 step_;
    std::atomic<u64> next_{0};
};

}  // namespace warren::hash
