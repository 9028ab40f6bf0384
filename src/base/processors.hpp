// SPDX-License-Identifier: Apache-2.0
// How many threads are worth starting: taskset, a batch system or a container may allow a process
// fewer processors than the machine has, and additional threads would only wait for each other.
#pragma once

#include <sched.h>

#include <algorithm>
#include <thread>

#include "warren/types.hpp"

namespace warren {

/// The number of processors that this process may use, at least one.
inline u32 usable_processors() {
    cpu_set_t set;
    CPU_ZERO(&set);
    // Fails on machines with more processors than a cpu_set_t can represent.
    if (::sched_getaffinity(0, sizeof set, &set) != 0) {
        return std::max(1u, std::thread::hardware_concurrency());
    }
    return static_cast<u32>(std::max(1, CPU_COUNT(&set)));
}

}  // namespace warren
