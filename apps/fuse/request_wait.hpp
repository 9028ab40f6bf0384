// SPDX-License-Identifier: Apache-2.0
// Waiting for the kernel's next request. To put a thread to sleep and to wake it takes longer than
// most requests take to serve; so while requests come one upon another, one thread looks for the
// next one for a moment before it sleeps.
//
// Invariant: at most one thread looks without sleeping, never for longer than longest_look, and
// only where the requests' sender has another processor to run on.
#pragma once

#include <atomic>
#include <chrono>

#include "base/processors.hpp"
#include "warren/types.hpp"

namespace warren::fuse {

class RequestWait {
 public:
    static constexpr std::chrono::microseconds longest_look{100};

    /// Returns when there is a request, or when it is better to sleep until there is one.
    void before_read(int device);
    /// Notes that a request has come.
    void after_read();

 private:
    using Clock = std::chrono::steady_clock;

    const bool may_look_ = usable_processors() > 1;
    std::atomic<bool> is_taken_{false};   // somebody looks
    std::atomic<i64> last_ns_{0};         // when the last request came
    std::atomic<bool> come_soon_{false};  // it came soon after the one before it
};

}  // namespace warren::fuse
