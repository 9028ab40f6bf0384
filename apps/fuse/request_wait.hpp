// SPDX-License-Identifier: Apache-2.0
// Waits for the kernel's next request. Putting a thread to sleep and waking it takes longer than
// serving most requests; so while requests follow closely, one thread polls for the next one
// briefly before it sleeps.
//
// Invariant: at most one thread polls, never longer than longest_look, and only if the process that
// sends requests has another processor to run on.
#pragma once

#include <atomic>
#include <chrono>

#include "base/processors.hpp"
#include "warren/types.hpp"

namespace warren::fuse {

class RequestWait {
 public:
    static constexpr std::chrono::microseconds longest_look{100};

    /// Returns when there is a request, or when it is better to sleep in read(2).
    void before_read(int device);
    /// Records that a request was read.
    void after_read();

 private:
    using Clock = std::chrono::steady_clock;

    const bool may_look_ = usable_processors() > 1;
    std::atomic<bool> is_taken_{false};   // a thread is polling
    std::atomic<i64> last_ns_{0};         // when the last request came
    std::atomic<bool> come_soon_{false};  // it came soon after the one before it
};

}  // namespace warren::fuse
