// SPDX-License-Identifier: Apache-2.0
// How much time has passed since a moment.
#pragma once

#include <chrono>

#include "warren/types.hpp"

namespace warren {

/// Runs from when it is made.
class Stopwatch {
 public:
    double seconds() const { return std::chrono::duration<double>(passed()).count(); }
    u64 nanoseconds() const { return static_cast<u64>(std::chrono::nanoseconds(passed()).count()); }

 private:
    using Clock = std::chrono::steady_clock;

    Clock::duration passed() const { return Clock::now() - start_; }

    Clock::time_point start_ = Clock::now();
};

}  // namespace warren
