// SPDX-License-Identifier: Apache-2.0
// How a thread waits before it tries again what was answered with Errc::retry.
#pragma once

#include <chrono>
#include <thread>

#include "fs/core/store.hpp"
#include "team/team.hpp"

namespace warren {

/// Waits until the cause of a retry may be over. While the freeze barrier is closed a commit copies
/// blocks, so this sleeps and leaves the processor to it.
inline void wait_to_retry(const core::StoreState& state) {
    if (relaxed_load(state.barrier_closed) != 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    } else {
        std::this_thread::yield();
    }
}

}  // namespace warren
