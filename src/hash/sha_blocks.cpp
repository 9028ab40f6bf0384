// SPDX-License-Identifier: Apache-2.0
// As in lanes_8.cpp, headers of the standard library come before the pragma, and only
// has_sha_instructions() may run before the processor has been checked.
//
// Invariant: of the four message vectors, w[i % 4] holds words 4 i to 4 i + 3 of the schedule while
// step i uses them; after that it holds those of step i + 4.
#include "hash/sha_blocks.hpp"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#include <cstring>
#include <type_traits>
#include <utility>

#include "warren/hash.hpp"

namespace warren::hash {

bool has_sha_instructions() {
    static const bool has = [] {
        u32 a = 0, b = 0, c = 0, d = 0;
        return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 29 & 1) != 0;
    }();
    return has;
}

}  // namespace warren::hash

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("sha,sse4.1"))), apply_to = function)
#else
#pragma GCC target("sha,sse4.1")
#endif

#include "hash/sha1.hpp"
#include "hash/sha256.hpp"

namespace warren::hash {

namespace {

/// Loads sixteen bytes as big-endian words, with the first in the lowest position, or in the
/// highest.
WARREN_INLINE __m128i load_words(const u8* at) {
    const __m128i order = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    return _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)), order);
}
WARREN_INLINE __m128i load_words_reversed(const u8* at) {
    const __m128i order = _mm_set_epi64x(0x0001020304050607, 0x08090a0b0c0d0e0f);
    return _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)), order);
}

}  // namespace

void take_sha1_blocks(u32* state, const u8* blocks, u64 count) {
    // The first word is in the highest position.
    __m128i abcd = _mm_shuffle_epi32(_mm_loadu_si128(reinterpret_cast<__m128i*>(state)), 0x1b);
    __m128i e = _mm_set_epi32(static_cast<int>(state[4]), 0, 0, 0);
    for (; count != 0; --count, blocks += 64) {
        const __m128i first_abcd = abcd;
        const __m128i first_e = e;
        __m128i w[4];
        for (int i = 0; i < 4; ++i)
            w[i] = load_words_reversed(blocks + 16 * i);
        __m128i before = abcd;  // the state of the previous step, from which e is computed
        unroll<20>([&](auto step) WARREN_INLINE_LAMBDA {
            constexpr int i = decltype(step)::value;
            __m128i& word = w[i % 4];
            const __m128i added =
                i == 0 ? _mm_add_epi32(e, word) : _mm_sha1nexte_epu32(before, word);
            before = abcd;
            abcd = _mm_sha1rnds4_epu32(abcd, added, i / 5);
            if constexpr (i < 16) {
                word = _mm_xor_si128(_mm_sha1msg1_epu32(word, w[(i + 1) % 4]), w[(i + 2) % 4]);
                word = _mm_sha1msg2_epu32(word, w[(i + 3) % 4]);
            }
        });
        e = _mm_sha1nexte_epu32(before, first_e);
        abcd = _mm_add_epi32(abcd, first_abcd);
    }
    _mm_storeu_si128(reinterpret_cast<__m128i*>(state), _mm_shuffle_epi32(abcd, 0x1b));
    state[4] = static_cast<u32>(_mm_extract_epi32(e, 3));
}

void take_sha256_blocks(u32* state, const u8* blocks, u64 count) {
    // The instructions need the state as (a, b, e, f) and (c, d, g, h), with the first in the
    // highest position.
    const __m128i abcd = _mm_loadu_si128(reinterpret_cast<__m128i*>(state));
    const __m128i efgh = _mm_loadu_si128(reinterpret_cast<__m128i*>(state + 4));
    __m128i abef = _mm_shuffle_epi32(_mm_unpacklo_epi64(efgh, abcd), 0xb1);
    __m128i cdgh = _mm_shuffle_epi32(_mm_unpackhi_epi64(efgh, abcd), 0xb1);
    for (; count != 0; --count, blocks += 64) {
        const __m128i first_abef = abef;
        const __m128i first_cdgh = cdgh;
        __m128i w[4];
        for (int i = 0; i < 4; ++i)
            w[i] = load_words(blocks + 16 * i);
        unroll<16>([&](auto step) WARREN_INLINE_LAMBDA {
            constexpr int i = decltype(step)::value;
            __m128i& word = w[i % 4];
            const __m128i added = _mm_add_epi32(
                word, _mm_loadu_si128(reinterpret_cast<const __m128i*>(Sha256::constants + 4 * i)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, added);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(added, 0x0e));
            if constexpr (i < 12) {
                const __m128i last = w[(i + 3) % 4];
                word = _mm_add_epi32(_mm_sha256msg1_epu32(word, w[(i + 1) % 4]),
                                     _mm_alignr_epi8(last, w[(i + 2) % 4], 4));
                word = _mm_sha256msg2_epu32(word, last);
            }
        });
        abef = _mm_add_epi32(abef, first_abef);
        cdgh = _mm_add_epi32(cdgh, first_cdgh);
    }
    // Moves the first word to the lowest position.
    abef = _mm_shuffle_epi32(abef, 0x1b);
    cdgh = _mm_shuffle_epi32(cdgh, 0x1b);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(state), _mm_unpacklo_epi64(abef, cdgh));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(state + 4), _mm_unpackhi_epi64(abef, cdgh));
}

}  // namespace warren::hash

#if defined(__clang__)
#pragma clang attribute pop
#endif

#else

#include "base/check.hpp"

namespace warren::hash {

bool has_sha_instructions() {
    return false;
}

void take_sha1_blocks(u32*, const u8*, u64) {
    check_failed("there are no SHA instructions", __FILE__, __LINE__);
}

void take_sha256_blocks(u32*, const u8*, u64) {
    check_failed("there are no SHA instructions", __FILE__, __LINE__);
}

}  // namespace warren::hash

#endif
