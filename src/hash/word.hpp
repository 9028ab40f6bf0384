// SPDX-License-Identifier: Apache-2.0
// The operations on 32-bit words from which MD5, SHA-1, SHA-256 and BLAKE3 are built. A "word" is a
// u32 (on a thread of the CPU or of a GPU) or a vector of them, with one for each of several
// messages, so one source serves all. Files for a vector unit include this after their target
// pragma.
//
// Invariant: everything here is inlined, so that no function is compiled for one kind of processor
// and used on another.
#pragma once

#include <type_traits>
#include <utility>

#include "warren/types.hpp"

#if defined(WARREN_HASH_AVX512)
#include <immintrin.h>
#endif

#if defined(__CUDACC__)
#define WARREN_INLINE __forceinline__
#define WARREN_INLINE_LAMBDA
#else
#define WARREN_INLINE inline __attribute__((always_inline))
#define WARREN_INLINE_LAMBDA __attribute__((always_inline))
#endif

namespace warren::hash {

template <int bits, class Word>
WARREN_HD WARREN_INLINE Word rotate_left(Word x) {
#if defined(__CUDA_ARCH__)
    return __funnelshift_l(x, x, bits);
#else
    return (x << bits) | (x >> (32 - bits));
#endif
}

template <int bits, class Word>
WARREN_HD WARREN_INLINE Word rotate_right(Word x) {
    return rotate_left<32 - bits>(x);
}

/// For each bit: c where b is set, else d.
template <class Word>
WARREN_HD WARREN_INLINE Word choose(Word b, Word c, Word d) {
    return d ^ (b & (c ^ d));
}

/// For each bit: the value that at least two of the three have.
template <class Word>
WARREN_HD WARREN_INLINE Word majority(Word b, Word c, Word d) {
#if defined(WARREN_HASH_AVX512)
    // One instruction, which the compiler does not find by itself.
    if constexpr (sizeof(Word) == 64) {
        return (Word)_mm512_ternarylogic_epi32((__m512i)b, (__m512i)c, (__m512i)d, 0xe8);
    }
#endif
    return (b & c) | (d & (b | c));
}

/// A table of constants for vectors, to be loaded from memory: a compiler that knows the values
/// would keep each in a register. Null for single words, which use immediate operands.
template <class Digest, class Word>
WARREN_HD WARREN_INLINE const u32* table_for() {
    const u32* table = nullptr;
#if !defined(__CUDACC__)
    if constexpr (sizeof(Word) > 4) {
        table = Digest::constants;
        __asm__("" : "+r"(table));
    }
#endif
    return table;
}

template <class Function, int... i>
WARREN_HD WARREN_INLINE void unroll(std::integer_sequence<int, i...>, Function function) {
    (function(std::integral_constant<int, i>{}), ...);
}

/// Calls `function` with the constants 0 to count - 1.
template <int count, class Function>
WARREN_HD WARREN_INLINE void unroll(Function function) {
    unroll(std::make_integer_sequence<int, count>{}, function);
}

/// Sets `state` to a digest's initial value. Device code cannot use constexpr arrays, only their
/// values.
template <class Digest, class Word>
WARREN_HD WARREN_INLINE void set_initial(Word (&state)[Digest::state_words]) {
    unroll<Digest::state_words>([&](auto index) WARREN_INLINE_LAMBDA {
        constexpr u32 value = Digest::initial[decltype(index)::value];
        state[decltype(index)::value] = Word{} + value;
    });
}

WARREN_HD constexpr u32 byte_swap(u32 x) {
    return x >> 24 | (x >> 8 & 0xff00) | (x << 8 & 0xff0000) | x << 24;
}

}  // namespace warren::hash
