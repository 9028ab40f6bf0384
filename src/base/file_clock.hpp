// SPDX-License-Identifier: Apache-2.0
// The clock for inode times: the one that the kernel uses for what it caches of a mount. It
// advances only at the ticks of the kernel's timer (every 1 to 10 ms). A finer clock is ahead of it
// by up to a tick, so a file created with a finer time would seem older after a write.
#pragma once

#include <time.h>

#include "warren/types.hpp"

namespace warren {

/// Nanoseconds since 1970, as of the last tick.
inline i64 now_nanoseconds() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return i64{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace warren
