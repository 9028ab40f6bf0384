// SPDX-License-Identifier: Apache-2.0
// A vector of `n` words, and the conversion of blocks of n messages to 16 vectors. Part of
// lanes_body.hpp: it is compiled for the processor that the including file's pragma selects.
//
// Invariant: word w of a vector belongs to message w.
#pragma once

#include <cstring>

#include "hash/word.hpp"

#if defined(WARREN_HASH_AVX2)
#include <immintrin.h>
#endif

namespace warren::hash {
namespace {

constexpr u32 block_bytes = 64;

template <u32 n>
struct Vector {
    typedef u32 Word __attribute__((vector_size(n * 4)));
    typedef u8 Byte __attribute__((vector_size(n * 4)));
    typedef u64 Pair __attribute__((vector_size(n * 4)));

    static WARREN_INLINE Word load(const u8* at) {
        Word word;
        std::memcpy(&word, at, sizeof word);
        return word;
    }

    /// Loads 16 bytes from each of at[which], at[which + 4] and so on into adjacent quarters.
    /// Joining them as they are loaded leaves only a transposition within quarters of the vector.
    static WARREN_INLINE Word load_quarters(const u8* const (&at)[n], u32 which, u64 offset) {
#if defined(WARREN_HASH_AVX2)
        const auto pair = [&](u32 first) WARREN_INLINE_LAMBDA {
            const auto* low = reinterpret_cast<const __m128i*>(at[which + 4 * first] + offset);
            const auto* high = reinterpret_cast<const __m128i*>(at[which + 4 * first + 4] + offset);
            return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(low)),
                                           _mm_loadu_si128(high), 1);
        };
#endif
#if defined(WARREN_HASH_AVX512)
        return (Word)_mm512_inserti64x4(_mm512_castsi256_si512(pair(0)), pair(2), 1);
#elif defined(WARREN_HASH_AVX2)
        return (Word)pair(0);
#else
        return load(at[which] + offset);
#endif
    }

    /// Interleaves, within every quarter of four words, words of x and y: the low or high ones
    /// (`from` 0 or 2) as single words or as pairs.
    template <u32 from, u32... i>
    static WARREN_INLINE Word unpack(Word x, Word y, std::integer_sequence<u32, i...>) {
        return __builtin_shufflevector(x, y, (i / 4 * 4 + from + i % 4 / 2 + i % 2 * n)...);
    }
    template <u32 from, u32... i>
    static WARREN_INLINE Word unpack_pairs(Word x, Word y, std::integer_sequence<u32, i...>) {
        // The type must have pairs as well: the compiler does not recognize that the words move in
        // pairs.
        return (Word)__builtin_shufflevector((Pair)x, (Pair)y,
                                             (i / 2 * 2 + from + i % 2 * (n / 2))...);
    }

    /// Transposes within every quarter: word w of row r becomes word r of row w.
    static WARREN_INLINE void transpose(Word (&rows)[4]) {
        constexpr auto all = std::make_integer_sequence<u32, n>{};
        constexpr auto pairs = std::make_integer_sequence<u32, n / 2>{};
        const Word low = unpack<0>(rows[0], rows[1], all);
        const Word high = unpack<2>(rows[0], rows[1], all);
        const Word other_low = unpack<0>(rows[2], rows[3], all);
        const Word other_high = unpack<2>(rows[2], rows[3], all);
        rows[0] = unpack_pairs<0>(low, other_low, pairs);
        rows[1] = unpack_pairs<1>(low, other_low, pairs);
        rows[2] = unpack_pairs<0>(high, other_high, pairs);
        rows[3] = unpack_pairs<1>(high, other_high, pairs);
    }

    /// Sets bit w if word w is 0.
    static WARREN_INLINE u64 zero_words(Word word) {
#if defined(WARREN_HASH_AVX512)
        return _mm512_testn_epi32_mask((__m512i)word, (__m512i)word);
#elif defined(WARREN_HASH_AVX2)
        const __m256i zeros = _mm256_cmpeq_epi32((__m256i)word, _mm256_setzero_si256());
        return static_cast<u32>(_mm256_movemask_ps(_mm256_castsi256_ps(zeros)));
#else
        u32 words[n];
        std::memcpy(words, &word, sizeof words);
        u64 bits = 0;
        for (u32 lane = 0; lane < n; ++lane)
            bits |= u64{words[lane] == 0} << lane;
        return bits;
#endif
    }

    /// Stores words 0 to 7 of each lane at place(lane), for the first `count` lanes.
    template <class Place>
    static WARREN_INLINE void store_eight(const Word (&values)[8], u32 count, Place place) {
        for (u32 half = 0; half < 2; ++half) {
            Word rows[4] = {values[4 * half], values[4 * half + 1], values[4 * half + 2],
                            values[4 * half + 3]};
            transpose(rows);
            for (u32 lane = 0; lane < count; ++lane) {
                const auto* quarters = reinterpret_cast<const u8*>(&rows[lane % 4]);
                std::memcpy(place(lane) + 4 * half, quarters + lane / 4 * 16, 16);
            }
        }
    }

    template <u32... i>
    static WARREN_INLINE Word swap_bytes(Word word, std::integer_sequence<u32, i...>) {
        const Byte bytes = (Byte)word;
        return (Word)__builtin_shufflevector(bytes, bytes, (i / 4 * 4 + 3 - i % 4)...);
    }

    /// Prefetches the bytes at each of the n addresses, which need not be mapped.
    static WARREN_INLINE void prefetch(const u8* const (&at)[n], u64 offset) {
        constexpr int into_level_two = 2;
#pragma GCC unroll 16
        for (u32 lane = 0; lane < n; ++lane)
            __builtin_prefetch(at[lane] + offset, 0, into_level_two);
    }

    /// Loads the block at each of the n addresses as 16 words, lane by lane.
    template <bool is_big_endian>
    static WARREN_INLINE void load_blocks(const u8* const (&at)[n], u64 offset,
                                          Word (&message)[16]) {
        constexpr auto all = std::make_integer_sequence<u32, n * 4>{};
        // Row by row: messages at a distance of 4 KiB share one set of the cache, which is too
        // small for all of them.
        Word rows[4][4];
#pragma GCC unroll 4
        for (u32 row = 0; row < 4; ++row) {
#pragma GCC unroll 4
            for (u32 part = 0; part < 4; ++part)
                rows[part][row] = load_quarters(at, row, offset + 16 * part);
        }
#pragma GCC unroll 4
        for (u32 part = 0; part < 4; ++part) {
            transpose(rows[part]);
#pragma GCC unroll 4
            for (u32 row = 0; row < 4; ++row) {
                message[4 * part + row] =
                    is_big_endian ? swap_bytes(rows[part][row], all) : rows[part][row];
            }
        }
    }
};

}  // namespace
}  // namespace warren::hash
