// SPDX-License-Identifier: Apache-2.0
// SHA-1 (FIPS 180-4) of one 64-byte block for each message of a word. It is provided for the many
// systems that identify data by it; it is not collision-resistant.
#pragma once

#include "hash/word.hpp"

namespace warren::hash {

struct Sha1 {
    static constexpr int state_words = 5;
    static constexpr u32 digest_bytes = 20;
    static constexpr bool is_big_endian = true;
    static constexpr u32 initial[state_words] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476,
                                                 0xc3d2e1f0};
    static constexpr u32 constants[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};

    template <int round, class Word>
    WARREN_HD static WARREN_INLINE Word mix(Word b, Word c, Word d) {
        if constexpr (round == 0) {
            return choose(b, c, d);
        } else if constexpr (round == 2) {
            return majority(b, c, d);
        } else {
            return b ^ c ^ d;
        }
    }

    /// Compresses one block, given as big-endian words, and overwrites it with the end of its
    /// schedule.
    template <class Word>
    WARREN_HD static WARREN_INLINE void compress(Word (&state)[state_words], Word (&message)[16]) {
        Word v[5] = {state[0], state[1], state[2], state[3], state[4]};
        unroll<80>([&](auto step) WARREN_INLINE_LAMBDA {
            constexpr int i = decltype(step)::value;
            constexpr u32 constant = constants[i / 20];
            Word& word = message[i % 16];
            if constexpr (i >= 16) {
                word = rotate_left<1>(message[(i + 13) % 16] ^ message[(i + 8) % 16] ^
                                      message[(i + 2) % 16] ^ word);
            }
            // The five variables take the role of "a" in turn, so that nothing is moved.
            const Word a = v[(80 - i) % 5];
            Word& b = v[(81 - i) % 5];
            Word& e = v[(84 - i) % 5];
            const Word mixed = mix<i / 20>(b, v[(82 - i) % 5], v[(83 - i) % 5]);
            e = e + (word + constant) + mixed + rotate_left<5>(a);
            b = rotate_left<30>(b);
        });
        for (int i = 0; i < 5; ++i)
            state[i] = state[i] + v[i];
    }
};

}  // namespace warren::hash
