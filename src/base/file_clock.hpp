// SPDX-License-Identifier: Apache-2.0
// The clock that stamps inodes: the one that the kernel stamps with what it caches of a mount. It
// stands still between two ticks of the kernel's timer (1 to 10 ms). A finer clock is ahead of it
// by up to a tick, so a file that it had stamped at its creation would seem older after a write.
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
