// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4) of one 64-byte block for each message of a word.
#pragma once

#include "hash/word.hpp"

namespace warren::hash {

struct Sha256 {
    static constexpr int state_words = 8;
    static constexpr u32 digest_bytes = 32;
    static constexpr bool is_big_endian = true;
    // Fractions of the square roots of the first primes, and below of their cube roots.
    static constexpr u32 initial[state_words] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    static constexpr u32 constants[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
        0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
        0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
        0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
        0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
        0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
        0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
        0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
        0xc67178f2};

    template <int first, int second, int third, class Word>
    WARREN_HD static WARREN_INLINE Word spread(Word x) {
        return rotate_right<first>(x) ^ rotate_right<second>(x) ^ rotate_right<third>(x);
    }
    template <int first, int second, int shift, class Word>
    WARREN_HD static WARREN_INLINE Word spread_shifted(Word x) {
        return rotate_right<first>(x) ^ rotate_right<second>(x) ^ (x >> shift);
    }

    /// Compresses one block, given as big-endian words, and overwrites it with the end of its
    /// schedule.
    template <class Word>
    WARREN_HD static WARREN_INLINE void compress(Word (&state)[state_words], Word (&message)[16]) {
        Word v[8];
        for (int i = 0; i < 8; ++i)
            v[i] = state[i];
        const u32* const table = table_for<Sha256, Word>();
        unroll<64>([&](auto step) WARREN_INLINE_LAMBDA {
            constexpr int i = decltype(step)::value;
            constexpr u32 known = constants[i];
            const u32 constant = sizeof(Word) > 4 ? table[i] : known;
            Word& word = message[i % 16];
            if constexpr (i >= 16) {
                word = word + spread_shifted<7, 18, 3>(message[(i + 1) % 16]) +
                       message[(i + 9) % 16] + spread_shifted<17, 19, 10>(message[(i + 14) % 16]);
            }
            // The eight variables take the role of "a" in turn, so that nothing is moved.
            const Word a = v[(64 - i) % 8];
            const Word e = v[(68 - i) % 8];
            Word& d = v[(67 - i) % 8];
            Word& h = v[(71 - i) % 8];
            const Word chosen = choose(e, v[(69 - i) % 8], v[(70 - i) % 8]);
            const Word common = majority(a, v[(65 - i) % 8], v[(66 - i) % 8]);
            h = h + (word + constant) + chosen + spread<6, 11, 25>(e);
            d = d + h;
            h = h + common + spread<2, 13, 22>(a);
        });
        for (int i = 0; i < 8; ++i)
            state[i] = state[i] + v[i];
    }
};

}  // namespace warren::hash
