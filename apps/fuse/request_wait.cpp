// SPDX-License-Identifier: Apache-2.0
// Like a hypervisor that polls before it halts: the next gap between requests is expected to be
// like the last one.
#include "apps/fuse/request_wait.hpp"

#include <poll.h>

namespace warren::fuse {

void RequestWait::before_read(int device) {
    if (!may_look_ || !come_soon_.load(std::memory_order_relaxed)) return;
    // Only a hint to other threads; it orders nothing else.
    if (is_taken_.exchange(true, std::memory_order_relaxed)) return;
    const Clock::time_point end = Clock::now() + longest_look;
    pollfd ready{device, POLLIN, 0};
    while (::poll(&ready, 1, 0) == 0 && Clock::now() < end) {
    }
    is_taken_.store(false, std::memory_order_relaxed);
}

void RequestWait::after_read() {
    const i64 now = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
    const i64 gap = now - last_ns_.exchange(now, std::memory_order_relaxed);
    come_soon_.store(gap < std::chrono::nanoseconds(longest_look).count(),
                     std::memory_order_relaxed);
}

}  // namespace warren::fuse
