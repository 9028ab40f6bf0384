// SPDX-License-Identifier: Apache-2.0
// BLAKE3's compression (O'Connor, Aumasson, Neves, Wilcox-O'Hearn: "BLAKE3: one function, fast
// everywhere", 2020) for each message of a word, and the constants of its tree: chunks of 1 KiB are
// the leaves, a parent hashes the chaining values of its two children, and its left subtree has the
// largest power of two of chunks that leaves some for the right one.
#pragma once

#include "hash/word.hpp"

namespace warren::hash {

struct Blake3 {
    static constexpr int state_words = 8;
    static constexpr u32 digest_bytes = 32;
    static constexpr u32 block_bytes = 64;
    static constexpr u32 chunk_bytes = 1024;
    static constexpr u32 initial[state_words] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

    enum Flag : u32 { chunk_start = 1, chunk_end = 2, parent = 4, root = 8, keyed = 16 };

    /// The index of the block's word that is used at `place` of `round`: the fixed permutation is
    /// applied once more in each round.
    static constexpr int message_index(int round, int place) {
        constexpr int permutation[16] = {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8};
        for (int i = 0; i < round; ++i)
            place = permutation[place];
        return place;
    }

    template <class Word>
    WARREN_HD static WARREN_INLINE void mix(Word& a, Word& b, Word& c, Word& d, Word x, Word y) {
        a = a + x + b;
        d = rotate_right<16>(d ^ a);
        c = c + d;
        b = rotate_right<12>(b ^ c);
        a = a + y + b;
        d = rotate_right<8>(d ^ a);
        c = c + d;
        b = rotate_right<7>(b ^ c);
    }

    /// Compresses one block into the chaining value `state`.
    template <class Word>
    WARREN_HD static WARREN_INLINE void compress(Word (&state)[state_words],
                                                 const Word (&message)[16], Word counter_low,
                                                 Word counter_high, Word block_length, Word flags) {
        const Word zero = flags ^ flags;
        Word v[16] = {state[0],          state[1],          state[2],          state[3],
                      state[4],          state[5],          state[6],          state[7],
                      zero + initial[0], zero + initial[1], zero + initial[2], zero + initial[3],
                      counter_low,       counter_high,      block_length,      flags};
        unroll<7 * 8>([&](auto step) WARREN_INLINE_LAMBDA {
            constexpr int round = decltype(step)::value / 8;
            constexpr int i = decltype(step)::value % 8;
            constexpr int column = i % 4;
            constexpr int slant = i / 4;  // the second four mix diagonals
            constexpr int x = message_index(round, 2 * i);
            constexpr int y = message_index(round, 2 * i + 1);
            mix(v[column], v[4 + (column + slant) % 4], v[8 + (column + 2 * slant) % 4],
                v[12 + (column + 3 * slant) % 4], message[x], message[y]);
        });
        for (int i = 0; i < 8; ++i)
            state[i] = v[i] ^ v[i + 8];
    }
};

}  // namespace warren::hash
