// SPDX-License-Identifier: Apache-2.0
// What a test asks when it runs under a sanitizer, where it takes five to twenty times as long.
#pragma once

#include "warren/types.hpp"

namespace warren {

inline constexpr bool is_sanitized = WARREN_SANITIZED;

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WARREN_THREADS_SANITIZED 1
#endif
#endif

/// Of a test's very many cases that run the same code it takes each case_step-th. What mutates an
/// image or fails a request mostly runs in one thread, which says little to a thread sanitizer.
#if defined(WARREN_THREADS_SANITIZED)
inline constexpr u64 case_step = 25;
#else
inline constexpr u64 case_step = is_sanitized ? 5 : 1;
#endif

/// Of what is large only to take more steps than something small, a test takes this part.
inline constexpr u64 size_step = is_sanitized ? 8 : 1;

}  // namespace warren
