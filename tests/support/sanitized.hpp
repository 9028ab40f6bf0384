// SPDX-License-Identifier: Apache-2.0
// Limits for tests under a sanitizer, where they take five to twenty times as long.
#pragma once

#include "warren/types.hpp"

namespace warren {

inline constexpr bool is_sanitized = WARREN_SANITIZED;

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WARREN_THREADS_SANITIZED 1
#endif
#endif

/// A test with very many cases that run the same code takes each case_step-th. Tests that mutate an
/// image or fail a request mostly have one thread, so the thread sanitizer finds little in them.
#if defined(WARREN_THREADS_SANITIZED)
inline constexpr u64 case_step = 25;
#else
inline constexpr u64 case_step = is_sanitized ? 5 : 1;
#endif

/// The same for cases that each open and check a whole volume, of which there are hundreds.
#if defined(WARREN_THREADS_SANITIZED)
inline constexpr u64 volume_step = 16;
#else
inline constexpr u64 volume_step = is_sanitized ? 2 : 1;
#endif

/// A test divides by this the size of what is large only to take many steps.
inline constexpr u64 size_step = is_sanitized ? 8 : 1;

}  // namespace warren
