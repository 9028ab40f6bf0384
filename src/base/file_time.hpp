// SPDX-License-Identifier: Apache-2.0
// File times as a volume stores them: nanoseconds since 1970 in 64 bits, for the years 1677 to
// 2262.
#pragma once

#include <algorithm>
#include <ctime>

#include "warren/types.hpp"

namespace warren {

inline constexpr i64 file_time_second = 1'000'000'000;
/// The last second that a volume can store; negated, the first.
inline constexpr i64 file_time_seconds_max = 0x7fffffffffffffff / file_time_second;

/// Converts a time to the volume's form. A time outside its range becomes the nearest one within,
/// as on ext4.
constexpr i64 file_time(i64 seconds, i64 nanoseconds) {
    const i64 kept = std::clamp(seconds, -file_time_seconds_max, file_time_seconds_max);
    const bool is_at_end = kept == file_time_seconds_max || kept == -file_time_seconds_max;
    return kept * file_time_second + (is_at_end ? 0 : nanoseconds);
}

inline timespec to_timespec(i64 time) {
    i64 seconds = time / file_time_second;
    i64 rest = time % file_time_second;
    if (rest < 0) {
        rest += file_time_second;
        --seconds;
    }
    return {static_cast<time_t>(seconds), static_cast<long>(rest)};
}

}  // namespace warren
