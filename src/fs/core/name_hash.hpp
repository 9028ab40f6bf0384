// SPDX-License-Identifier: Apache-2.0
// The hash of a name, which decides where the name lies in its directory: SipHash-1-3 (Aumasson,
// Bernstein: "SipHash: a fast short-input PRF", 2012) under the volume's 128-bit key. Without the
// key, an attacker cannot choose names that collide.
//
// Invariant: a hash is below 2^55 - 1, so every position in a directory (hash << 8 | number), plus
// the three positions that "." and ".." need, is below 2^63.
#pragma once

#include <cstring>

#include "base/host_device.hpp"
#include "warren/types.hpp"

namespace warren {

inline constexpr u64 name_hash_reserved = (u64{1} << 55) - 1;

/// The state of SipHash.
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

/// The eight bytes at any address, aligned or not, in memory order.
WARREN_HD inline u64 eight_bytes(const char* at) {
#if defined(__CUDA_ARCH__)
    if (reinterpret_cast<std::uintptr_t>(at) % 8 == 0) return *reinterpret_cast<const u64*>(at);
    u64 word = 0;
#pragma unroll
    for (u32 i = 0; i < 8; ++i)
        word |= u64{static_cast<u8>(at[i])} << i * 8;
    return word;
#else
    u64 word;
    std::memcpy(&word, at, sizeof word);
    return word;
#endif
}

/// The first `length` bytes at `at`, at most eight, as a word with zeros after them.
WARREN_HD inline u64 some_bytes(const char* at, u32 length) {
    if (length >= 8) return eight_bytes(at);
#if defined(__CUDA_ARCH__)
    // An aligned word that contains a byte of the name can be read as a whole: memory for names
    // ends at a word boundary.
    if (reinterpret_cast<std::uintptr_t>(at) % 8 == 0) {
        return *reinterpret_cast<const u64*>(at) & ((u64{1} << length * 8) - 1);
    }
#endif
    u64 word = 0;
    for (u32 i = 0; i < 7; ++i) {
        if (i < length) word |= u64{static_cast<u8>(at[i])} << i * 8;
    }
    return word;
}

/// SipHash of `length` bytes, with one round a word and three at the end. word_of(i) returns bytes
/// 8 i to 8 i + 7, with zeros after the end.
template <class WordOf>
WARREN_HD u64 siphash_1_3_of(const u64 key[2], u32 length, const WordOf& word_of) {
    SipState state{key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du,
                   key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u};
    const u32 whole = length / 8;
    const u64 size = u64{length & 0xff} << 56;
    for (u32 i = 0; i <= whole; ++i) {
        const u64 bytes = i < whole || length % 8 != 0 ? word_of(i) : 0;
        const u64 word = i < whole ? bytes : bytes | size;
        state.d ^= word;
        state.round();
        state.a ^= word;
    }
    state.c ^= 0xff;
    for (int i = 0; i < 3; ++i)
        state.round();
    return state.a ^ state.b ^ state.c ^ state.d;
}

/// As above, for bytes at any address.
WARREN_HD inline u64 siphash_1_3(const u64 key[2], const char* bytes, u32 length) {
    return siphash_1_3_of(key, length,
                          [&](u32 i) { return some_bytes(bytes + i * 8, length - i * 8); });
}

/// The 55 bits of a hash that the format keeps; never `name_hash_reserved`.
WARREN_HD constexpr u64 shortened_hash(u64 hash) {
    return hash >> 9 == name_hash_reserved ? name_hash_reserved - 1 : hash >> 9;
}

/// The 55-bit hash of a name under the superblock's key.
WARREN_HD inline u64 name_hash(const u64 key[2], const char* name, u32 length) {
    return shortened_hash(siphash_1_3(key, name, length));
}

}  // namespace warren
