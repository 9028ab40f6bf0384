// SPDX-License-Identifier: Apache-2.0
// Where a name lies in a directory: SipHash-1-3 (Aumasson, Bernstein: "SipHash: a fast short-input
// PRF", 2012) of its bytes under the volume's 128-bit key, so that nobody who does not know the key
// can make names that collide.
//
// Invariant: a hash is below 2^55 - 1, so that every position in a directory (hash << 8 | number)
// plus the three that "." and ".." need stays below 2^63.
#pragma once

#include "base/host_device.hpp"
#include "warren/types.hpp"

namespace warren {

inline constexpr u64 name_hash_reserved = (u64{1} << 55) - 1;

/// The four words that SipHash stirs.
struct SipState {
    u64 a, b, c, d;

    WARREN_HD constexpr void round() {
        a += b;
        c += d;
        b = hd::rotl(b, 13) ^ a;
        d = hd::rotl(d, 16) ^ c;
        a = hd::rotl(a, 32);
        c += b;
        a += d;
        b = hd::rotl(b, 17) ^ c;
        d = hd::rotl(d, 21) ^ a;
        c = hd::rotl(c, 32);
    }
};

/// SipHash with one round a word and three at the end. Reads `length` bytes one by one, so `bytes`
/// may lie anywhere.
WARREN_HD inline u64 siphash_1_3(const u64 key[2], const char* bytes, u32 length) {
    SipState state{key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du,
                   key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u};
    u64 word = 0;
    for (u32 i = 0; i < length; ++i) {
        word |= u64{static_cast<u8>(bytes[i])} << (i % 8 * 8);
        if (i % 8 != 7) continue;
        state.d ^= word;
        state.round();
        state.a ^= word;
        word = 0;
    }
    word |= u64{length & 0xff} << 56;
    state.d ^= word;
    state.round();
    state.a ^= word;
    state.c ^= 0xff;
    for (int i = 0; i < 3; ++i)
        state.round();
    return state.a ^ state.b ^ state.c ^ state.d;
}

/// The 55-bit hash of a name under the superblock's key; never `name_hash_reserved`.
WARREN_HD inline u64 name_hash(const u64 key[2], const char* name, u32 length) {
    const u64 hash = siphash_1_3(key, name, length) >> 9;
    return hash == name_hash_reserved ? name_hash_reserved - 1 : hash;
}

}  // namespace warren
