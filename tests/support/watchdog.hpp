// SPDX-License-Identifier: Apache-2.0
// Stops the program if a step takes too long, and prints the step: a test that would hang reports
// where.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include "base/wait_for_stop.hpp"

namespace warren {

class Watchdog {
 public:
    /// The work from here until the next call must finish in time.
    void begin(const std::string& what) {
        const std::lock_guard guard(mutex_);
        what_ = what;
        end_ = std::chrono::steady_clock::now() + time_max;
    }

 private:
    static constexpr std::chrono::seconds time_max{60};

    void watch(const std::stop_token& stop) {
        while (!wait_for_stop(stop, std::chrono::milliseconds(500))) {
            const std::lock_guard guard(mutex_);
            if (std::chrono::steady_clock::now() < end_) continue;
            std::fprintf(stderr, "does not end: %s\n", what_.c_str());
            std::abort();
        }
    }

    std::mutex mutex_;  // guards the members below, except the thread
    std::string what_;
    std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::now() + time_max;
    std::jthread thread_{[this](const std::stop_token& stop) { watch(stop); }};
};

}  // namespace warren
