// SPDX-License-Identifier: Apache-2.0
// MD5 (RFC 1321) of one 64-byte block for each message of a word. It is provided for the many
// systems that identify data by it; it is not collision-resistant.
#pragma once

#include "hash/word.hpp"

namespace warren::hash {

struct Md5 {
    static constexpr int state_words = 4;
    static constexpr u32 digest_bytes = 16;
    static constexpr bool is_big_endian = false;
    static constexpr u32 initial[state_words] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};

    // floor(2^32 * |sin(i + 1)|)
    static constexpr u32 constants[64] = {
        0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613,
        0xfd469501, 0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193,
        0xa679438e, 0x49b40821, 0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d,
        0x02441453, 0xd8a1e681, 0xe7d3fbc8, 0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed,
        0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a, 0xfffa3942, 0x8771f681, 0x6d9d6122,
        0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70, 0x289b7ec6, 0xeaa127fa,
        0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665, 0xf4292244,
        0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
        0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb,
        0xeb86d391};
    static constexpr int shifts[4][4] = {
        {7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};

    static constexpr int message_index(int step) {
        constexpr int factors[4] = {1, 5, 3, 7};
        constexpr int offsets[4] = {0, 1, 5, 0};
        return (factors[step / 16] * step + offsets[step / 16]) % 16;
    }

    template <int round, class Word>
    WARREN_HD static WARREN_INLINE Word mix(Word b, Word c, Word d) {
        if constexpr (round == 0) {
            return choose(b, c, d);
        } else if constexpr (round == 1) {
            return choose(d, b, c);
        } else if constexpr (round == 2) {
            return b ^ c ^ d;
        } else {
            return c ^ (b | ~d);
        }
    }

    /// Compresses one block, given as little-endian words.
    template <class Word>
    WARREN_HD static WARREN_INLINE void compress(Word (&state)[state_words], Word (&message)[16]) {
        Word v[4] = {state[0], state[1], state[2], state[3]};
        const u32* const table = table_for<Md5, Word>();
        unroll<64>([&](auto step) WARREN_INLINE_LAMBDA {
            constexpr int i = decltype(step)::value;
            constexpr u32 known = constants[i];
            const u32 constant = sizeof(Word) > 4 ? table[i] : known;
            constexpr int shift = shifts[i / 16][i % 4];
            constexpr int index = message_index(i);
            // The four variables take the role of "a" in turn, so that nothing is moved.
            Word& a = v[(64 - i) % 4];
            const Word b = v[(65 - i) % 4];
            const Word mixed = mix<i / 16>(b, v[(66 - i) % 4], v[(67 - i) % 4]);
            a = b + rotate_left<shift>(a + (message[index] + constant) + mixed);
        });
        for (int i = 0; i < 4; ++i)
            state[i] = state[i] + v[i];
    }
};

}  // namespace warren::hash
