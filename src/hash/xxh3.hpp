// SPDX-License-Identifier: Apache-2.0
// XXH3 with 128 bits, no seed and the standard secret (the specification of xxHash by Yann Collet),
// for a thread of the CPU or of a GPU. A CPU uses the library xxHash if the build has it; this code
// runs on GPUs, and on the CPU otherwise.
//
// Invariant: bytes outside of the input are never read; words are read at any alignment.
#pragma once

#include <cstring>

#include "hash/word.hpp"

namespace warren::hash {

struct Xxh3 {
    static constexpr u32 digest_bytes = 16;
    static constexpr u32 stripe_bytes = 64;
    static constexpr u32 block_bytes = 1024;  // 16 stripes; then accumulators are scrambled
    static constexpr u32 block_stripes = block_bytes / stripe_bytes;
    static constexpr u64 most_short_bytes = 240;  // longer inputs use the accumulators
    static constexpr u32 lanes = 8;

    static constexpr u64 prime32_1 = 0x9e3779b1;
    static constexpr u64 prime32_2 = 0x85ebca77;
    static constexpr u64 prime32_3 = 0xc2b2ae3d;
    static constexpr u64 prime64_1 = 0x9e3779b185ebca87;
    static constexpr u64 prime64_2 = 0xc2b2ae3d27d4eb4f;
    static constexpr u64 prime64_3 = 0x165667b19e3779f9;
    static constexpr u64 prime64_4 = 0x85ebca77c2b2ae63;
    static constexpr u64 prime64_5 = 0x27d4eb2f165667c5;
    static constexpr u64 prime32_4 = 0x27d4eb2f;
    static constexpr u64 prime32_5 = 0x165667b1;
    static constexpr u64 initial[lanes] = {prime32_3, prime64_1, prime64_2, prime64_3,
                                           prime64_4, prime32_2, prime64_5, prime32_1};

    /// The same for an index unknown at compile time: device code cannot use constexpr arrays.
    WARREN_HD static constexpr u64 initial_at(u32 lane) {
        const u64 halves[2][4] = {{prime32_3, prime64_2, prime64_4, prime64_5},
                                  {prime64_1, prime64_3, prime32_2, prime32_1}};
        return halves[lane % 2][lane / 2];
    }

    // Offsets into the secret, in bytes.
    static constexpr u32 scramble_secret = 128;
    static constexpr u32 last_stripe_secret = 121;
    static constexpr u32 low_merge_secret = 11;
    static constexpr u32 high_merge_secret = 117;

    /// The secret as little-endian words.
    static constexpr u64 secret_words[24] = {
        0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de, 0x1f67b3b7a4a44072,
        0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82, 0x8e2443f7744608b8, 0x4c263a81e69035e0,
        0xcb00c391bb52283c, 0xa32e531b8b65d088, 0x4ef90da297486471, 0xd8acdea946ef1938,
        0x3f349ce33f76faa8, 0x1d4f0bc7c7bbdcf9, 0x3159b4cd4be0518a, 0x647378d9c97e9fc8,
        0xc3ebd33483acc5ea, 0xeb6313faffa081c5, 0x49daf0b751dd0d17, 0x9e68d429265516d3,
        0xfca1477d58be162b, 0xce31d07ad1b8f88f, 0x280416958f3acb45, 0x7e404bbbcafbd7af};

    /// The 8 bytes of the secret from `offset` on; a constant if the offset is one.
    WARREN_HD static constexpr u64 secret(const u64* words, u32 offset) {
        const u64 low = words[offset / 8];
        const u32 shift = offset % 8 * 8;
        return shift == 0 ? low : low >> shift | words[offset / 8 + 1] << (64 - shift);
    }

    struct Digest128 {
        u64 low;
        u64 high;
    };

    template <class Value>
    WARREN_HD static Value load(const u8* at) {
        Value value;
#if defined(__CUDA_ARCH__)
        value = 0;
        for (u32 i = 0; i < sizeof value; ++i)
            value |= static_cast<Value>(at[i]) << (8 * i);
#else
        std::memcpy(&value, at, sizeof value);
#endif
        return value;
    }

    WARREN_HD static u64 multiply_high(u64 x, u64 y) {
#if defined(__CUDA_ARCH__)
        return __umul64hi(x, y);
#else
        return static_cast<u64>(static_cast<unsigned __int128>(x) * y >> 64);
#endif
    }
    WARREN_HD static u64 fold(u64 x, u64 y) {
        return x * y ^ multiply_high(x, y);
    }
    WARREN_HD static u64 avalanche(u64 x) {
        x = (x ^ x >> 37) * 0x165667919e3779f9;
        return x ^ x >> 32;
    }
    WARREN_HD static u64 avalanche_of_xxh64(u64 x) {
        x = (x ^ x >> 33) * prime64_2;
        x = (x ^ x >> 29) * prime64_3;
        return x ^ x >> 32;
    }
    WARREN_HD static u64 byte_swap_64(u64 x) {
        return static_cast<u64>(byte_swap(static_cast<u32>(x))) << 32 |
               byte_swap(static_cast<u32>(x >> 32));
    }

    /// Adds one word of a stripe to its accumulator, and the plain word to that of its neighbour.
    WARREN_HD static WARREN_INLINE void accumulate(u64& own, u64& neighbour, u64 word, u64 key) {
        const u64 keyed = word ^ key;
        neighbour += word;
        own += static_cast<u64>(static_cast<u32>(keyed)) * (keyed >> 32);
    }
    WARREN_HD static WARREN_INLINE u64 scramble(u64 value, u64 key) {
        return (value ^ value >> 47 ^ key) * prime32_1;
    }

    WARREN_HD static u64 merge(const u64* accumulators, const u64* words, u32 offset, u64 start) {
        for (u32 i = 0; i < 4; ++i) {
            start += fold(accumulators[2 * i] ^ secret(words, offset + 16 * i),
                          accumulators[2 * i + 1] ^ secret(words, offset + 16 * i + 8));
        }
        return avalanche(start);
    }
    /// The digest of a long input, given its accumulators after the last stripe.
    WARREN_HD static Digest128 finish_long(const u64* accumulators, const u64* words,
                                           u64 length_bytes) {
        return {merge(accumulators, words, low_merge_secret, length_bytes * prime64_1),
                merge(accumulators, words, high_merge_secret, ~(length_bytes * prime64_2))};
    }

    /// Adds a stripe to all accumulators, with the secret from `offset` on.
    WARREN_HD static void take_stripe(u64 (&accumulators)[lanes], const u8* stripe,
                                      const u64* words, u32 offset) {
        for (u32 i = 0; i < lanes; ++i) {
            accumulate(accumulators[i], accumulators[i ^ 1], load<u64>(stripe + 8 * i),
                       secret(words, offset + 8 * i));
        }
    }
    /// Processes a whole block and scrambles the accumulators after it.
    WARREN_HD static void take_block(u64 (&accumulators)[lanes], const u8* block,
                                     const u64* words) {
        for (u32 i = 0; i < block_stripes; ++i)
            take_stripe(accumulators, block + stripe_bytes * i, words, 8 * i);
        for (u32 i = 0; i < lanes; ++i)
            accumulators[i] = scramble(accumulators[i], secret(words, scramble_secret + 8 * i));
    }

    WARREN_HD static Digest128 hash_up_to_16(const u8* data, u64 length, const u64* words);
    WARREN_HD static Digest128 hash_17_to_240(const u8* data, u64 length, const u64* words);
    /// Hashes an input of at most most_short_bytes.
    WARREN_HD static Digest128 hash_short(const u8* data, u64 length, const u64* words) {
        return length <= 16 ? hash_up_to_16(data, length, words)
                            : hash_17_to_240(data, length, words);
    }
    WARREN_HD static Digest128 hash(const u8* data, u64 length, const u64* words);

    /// Stores the digest as it is printed: big-endian, the high half first.
    WARREN_HD static void store(Digest128 digest, u8* at) {
        for (u32 i = 0; i < 8; ++i) {
            at[i] = static_cast<u8>(digest.high >> (56 - 8 * i));
            at[8 + i] = static_cast<u8>(digest.low >> (56 - 8 * i));
        }
    }
};

WARREN_HD inline Xxh3::Digest128 Xxh3::hash_up_to_16(const u8* data, u64 length, const u64* words) {
    if (length > 8) {
        const u64 first = load<u64>(data);
        const u64 last = load<u64>(data + length - 8);
        const u64 mixed = first ^ last ^ secret(words, 32) ^ secret(words, 40);
        const u64 flipped = last ^ secret(words, 48) ^ secret(words, 56);
        const u64 low = mixed * prime64_1 + ((length - 1) << 54);
        const u64 high = multiply_high(mixed, prime64_1) + flipped +
                         static_cast<u64>(static_cast<u32>(flipped)) * (prime32_2 - 1);
        const u64 crossed = low ^ byte_swap_64(high);
        return {avalanche(crossed * prime64_2),
                avalanche(multiply_high(crossed, prime64_2) + high * prime64_2)};
    }
    if (length >= 4) {
        const u64 both = load<u32>(data) | static_cast<u64>(load<u32>(data + length - 4)) << 32;
        const u64 keyed = both ^ secret(words, 16) ^ secret(words, 24);
        const u64 factor = prime64_1 + (length << 2);
        u64 low = keyed * factor;
        const u64 high = multiply_high(keyed, factor) + (low << 1);
        low ^= high >> 3;
        low = (low ^ low >> 35) * 0x9fb21c651e98df25;
        return {low ^ low >> 28, avalanche(high)};
    }
    if (length > 0) {
        const u32 low = static_cast<u32>(data[0]) << 16 |
                        static_cast<u32>(data[length >> 1]) << 24 | data[length - 1] |
                        static_cast<u32>(length) << 8;
        const u32 high = rotate_left<13>(byte_swap(low));
        const u64 first = secret(words, 0);
        const u64 second = secret(words, 8);
        return {avalanche_of_xxh64(low ^ ((first ^ first >> 32) & 0xffffffff)),
                avalanche_of_xxh64(high ^ ((second ^ second >> 32) & 0xffffffff))};
    }
    return {avalanche_of_xxh64(secret(words, 64) ^ secret(words, 72)),
            avalanche_of_xxh64(secret(words, 80) ^ secret(words, 88))};
}

WARREN_HD inline Xxh3::Digest128 Xxh3::hash_17_to_240(const u8* data, u64 length,
                                                      const u64* words) {
    u64 low = length * prime64_1;
    u64 high = 0;
    const auto mix = [&](u64 left, u64 right, u32 offset) {
        const u64 a = load<u64>(data + left);
        const u64 b = load<u64>(data + left + 8);
        const u64 c = load<u64>(data + right);
        const u64 d = load<u64>(data + right + 8);
        low = (low + fold(a ^ secret(words, offset), b ^ secret(words, offset + 8))) ^ (c + d);
        high =
            (high + fold(c ^ secret(words, offset + 16), d ^ secret(words, offset + 24))) ^ (a + b);
    };
    if (length <= 128) {
        // From both ends towards the middle, the innermost pair first.
        for (u64 pair = (length - 1) / 32 + 1; pair-- > 0;)
            mix(16 * pair, length - 16 * (pair + 1), static_cast<u32>(32 * pair));
    } else {
        for (u32 i = 0; i < 4; ++i)
            mix(32 * i, 32 * i + 16, 32 * i);
        low = avalanche(low);
        high = avalanche(high);
        for (u32 i = 4; i < length / 32; ++i)
            mix(32 * i, 32 * i + 16, 3 + 32 * (i - 4));
        mix(length - 16, length - 32, 103);
    }
    return {avalanche(low + high),
            0 - avalanche(low * prime64_1 + high * prime64_4 + length * prime64_2)};
}

WARREN_HD inline Xxh3::Digest128 Xxh3::hash(const u8* data, u64 length, const u64* words) {
    if (length <= most_short_bytes) return hash_short(data, length, words);
    u64 accumulators[lanes];
    for (u32 i = 0; i < lanes; ++i)
        accumulators[i] = initial[i];
    const u64 blocks = (length - 1) / block_bytes;
    for (u64 i = 0; i < blocks; ++i)
        take_block(accumulators, data + i * block_bytes, words);
    const u64 stripes = (length - 1 - blocks * block_bytes) / stripe_bytes;
    for (u32 i = 0; i < stripes; ++i)
        take_stripe(accumulators, data + blocks * block_bytes + stripe_bytes * i, words, 8 * i);
    take_stripe(accumulators, data + length - stripe_bytes, words, last_stripe_secret);
    return finish_long(accumulators, words, length);
}

}  // namespace warren::hash
