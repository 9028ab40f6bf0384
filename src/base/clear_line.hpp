// SPDX-License-Identifier: Apache-2.0
// Clears memory that is unlikely to be in the cache: on x86-64 without reading it first, as a usual
// store does.
#pragma once

#include <cstddef>

#include "warren/types.hpp"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace warren {

inline constexpr std::size_t line_bytes = 64;

/// Clears a cache line, word by word: another thread sees each word either old or zero. Nothing
/// orders this with the calling thread's other stores but fence_cleared_lines(). The thread
/// sanitizer does not see it.
__attribute__((no_sanitize("thread"))) inline void clear_line(void* line) {
    auto* const words = static_cast<long long*>(line);
    for (std::size_t i = 0; i < line_bytes / sizeof *words; ++i) {
#if defined(__x86_64__)
        _mm_stream_si64(&words[i], 0);
#else
        __atomic_store_n(&words[i], 0, __ATOMIC_RELAXED);
#endif
    }
}

/// Another thread that sees what the calling thread stores or clears after this sees what it has
/// stored or cleared before.
inline void fence_cleared_lines() {
#if defined(__x86_64__)
    _mm_sfence();
#else
    __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}

}  // namespace warren
