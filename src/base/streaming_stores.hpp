// SPDX-License-Identifier: Apache-2.0
// Stores to memory that is unlikely to be in the cache: on x86-64 without reading it first, as a
// usual store does. Another thread sees each word either old or new. Nothing orders them with the
// calling thread's other stores but fence_streamed(). The thread sanitizer does not see them.
#pragma once

#include <cstddef>

#include "warren/types.hpp"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace warren {

inline constexpr std::size_t line_bytes = 64;

__attribute__((no_sanitize("thread"))) inline void stream_word(u64& to, u64 value) {
#if defined(__x86_64__)
    _mm_stream_si64(reinterpret_cast<long long*>(&to), static_cast<long long>(value));
#else
    __atomic_store_n(&to, value, __ATOMIC_RELAXED);
#endif
}

/// Clears a cache line.
inline void clear_line(void* line) {
    auto* const words = static_cast<u64*>(line);
    for (std::size_t i = 0; i < line_bytes / sizeof *words; ++i)
        stream_word(words[i], 0);
}

/// Copies whole cache lines; both ranges begin with one. No thread changes the source meanwhile.
__attribute__((no_sanitize("thread"))) inline void copy_lines(const void* from, void* to,
                                                              std::size_t lines) {
#if defined(__x86_64__)
    const auto* const source = static_cast<const __m128i*>(from);
    auto* const target = static_cast<__m128i*>(to);
    for (std::size_t i = 0; i < lines * line_bytes / sizeof *source; ++i)
        _mm_stream_si128(&target[i], _mm_load_si128(&source[i]));
#else
    const auto* const source = static_cast<const u64*>(from);
    auto* const target = static_cast<u64*>(to);
    for (std::size_t i = 0; i < lines * line_bytes / sizeof *source; ++i)
        stream_word(target[i], source[i]);
#endif
}

/// Another thread that sees what the calling thread stores after this sees what it has stored
/// before.
inline void fence_streamed() {
#if defined(__x86_64__)
    _mm_sfence();
#else
    __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}

}  // namespace warren
