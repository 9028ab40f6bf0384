// SPDX-License-Identifier: Apache-2.0
// BLAKE3's chunks and parents in parallel, and XXH3's accumulators. Part of lanes_body.hpp: it is
// compiled for the processor that the including file's pragma selects.
//
// Invariant: bytes outside of a message are never read.
#pragma once

#include <cstring>
#include <span>

#include "hash/blake3.hpp"
#include "hash/lanes.hpp"
#include "hash/lanes_vector.hpp"
#include "hash/xxh3.hpp"

namespace warren::hash {
namespace {

/// Sets the state with which a chunk or a parent begins.
template <class Word>
WARREN_INLINE void set_key(const Blake3Key& key, Word (&value)[8]) {
    for (int i = 0; i < 8; ++i)
        value[i] = Word{} + key.words[i];
}

/// Hashes up to n chunks of BLAKE3. Finished lanes keep their value while others continue.
template <u32 n>
class ChunkLanes {
    using Word = typename Vector<n>::Word;

 public:
    ChunkLanes(const Blake3Key& key, std::span<const ChunkJob> jobs) : key_(key), jobs_(jobs) {
        for (u32 lane = 0; lane < n; ++lane) {
            const ChunkJob& job = jobs_[lane < jobs_.size() ? lane : 0];
            at_[lane] = reinterpret_cast<const u8*>(job.data.data());
            counter_low_[lane] = static_cast<u32>(job.index);
            counter_high_[lane] = static_cast<u32>(job.index >> 32);
            bytes_[lane] = static_cast<u32>(job.data.size());
            if (bytes_[lane] != Blake3::chunk_bytes) are_whole_ = false;
            if (blocks_of(lane) > most_blocks_) most_blocks_ = blocks_of(lane);
        }
    }

    void run() {
        Word value[8];
        set_key(key_, value);
        for (u32 block = 0; block < most_blocks_; ++block) {
            if (are_whole_) {
                take_whole(block, value);
            } else {
                take_part(block, value);
            }
        }
        Vector<n>::store_eight(value, static_cast<u32>(jobs_.size()),
                               [&](u32 lane) { return jobs_[lane].chaining_value; });
    }

 private:
    u32 blocks_of(u32 lane) const {
        return bytes_[lane] == 0 ? 1 : (bytes_[lane] + block_bytes - 1) / block_bytes;
    }

    WARREN_INLINE void take_whole(u32 block, Word (&value)[8]) {
        Word message[16];
        // The next jobs are usually the chunks that follow these.
        Vector<n>::prefetch(at_, n * Blake3::chunk_bytes + block * block_bytes);
        Vector<n>::template load_blocks<false>(at_, block * block_bytes, message);
        Word flags = Word{} + (key_.flags | (block == 0 ? u32{Blake3::chunk_start} : 0u));
        if (block == most_blocks_ - 1) {
            for (u32 lane = 0; lane < n; ++lane)
                flags[lane] |= end_flags(lane);
        }
        Blake3::compress(value, message, counter_low_, counter_high_, Word{} + block_bytes, flags);
    }

    u32 end_flags(u32 lane) const {
        const bool is_root = lane < jobs_.size() && jobs_[lane].is_root;
        return Blake3::chunk_end | (is_root ? u32{Blake3::root} : 0u);
    }

    void take_part(u32 block, Word (&value)[8]) {
        Word flags = {};
        Word lengths = {};
        Word active = {};
        u8 ends[n][block_bytes] = {};
        const u8* from[n];
        for (u32 lane = 0; lane < n; ++lane) {
            from[lane] = ends[lane];
            if (block >= blocks_of(lane)) continue;
            active[lane] = ~u32{0};
            flags[lane] = key_.flags;
            if (block == 0) flags[lane] |= Blake3::chunk_start;
            if (block == blocks_of(lane) - 1) flags[lane] |= end_flags(lane);
            const u32 rest = bytes_[lane] - block * block_bytes;
            lengths[lane] = rest < block_bytes ? rest : block_bytes;
            if (rest >= block_bytes) {
                from[lane] = at_[lane] + block * block_bytes;
            } else if (rest != 0) {
                std::memcpy(ends[lane], at_[lane] + block * block_bytes, rest);
            }
        }
        Word message[16];
        Vector<n>::template load_blocks<false>(from, 0, message);
        Word next[8];
        for (int i = 0; i < 8; ++i)
            next[i] = value[i];
        Blake3::compress(next, message, counter_low_, counter_high_, lengths, flags);
        for (int i = 0; i < 8; ++i)
            value[i] = choose(active, next[i], value[i]);
    }

    const Blake3Key& key_;
    std::span<const ChunkJob> jobs_;
    const u8* at_[n];
    Word counter_low_ = {};
    Word counter_high_ = {};
    u32 bytes_[n];
    u32 most_blocks_ = 0;
    bool are_whole_ = true;
};

template <u32 n>
void hash_chunks_in_lanes(const Blake3Key& key, std::span<const ChunkJob> jobs) {
    for (; jobs.size() > n; jobs = jobs.subspan(n))
        ChunkLanes<n>(key, jobs.first(n)).run();
    if (!jobs.empty()) ChunkLanes<n>(key, jobs).run();
}

template <u32 n>
void hash_parents_in_lanes(const Blake3Key& key, std::span<const ParentJob> jobs) {
    using Word = typename Vector<n>::Word;
    for (u64 first = 0; first < jobs.size(); first += n) {
        const u8* at[n];
        Word flags = {};
        for (u32 lane = 0; lane < n; ++lane) {
            const ParentJob& job = jobs[first + lane < jobs.size() ? first + lane : first];
            at[lane] = reinterpret_cast<const u8*>(job.children);
            flags[lane] = key.flags | Blake3::parent | (job.is_root ? u32{Blake3::root} : 0u);
        }
        Word message[16];
        Vector<n>::template load_blocks<false>(at, 0, message);
        Word value[8];
        set_key(key, value);
        Blake3::compress(value, message, Word{}, Word{}, Word{} + block_bytes, flags);
        const u64 left = jobs.size() - first;
        Vector<n>::store_eight(value, left < n ? static_cast<u32>(left) : n,
                               [&](u32 lane) { return jobs[first + lane].chaining_value; });
    }
}

/// The eight accumulators of XXH3 in one or several vectors, which stay in registers throughout.
template <u32 n>
class Xxh3Lanes {
    using Pair = typename Vector<n>::Pair;
    static constexpr u32 vectors = 16 / n;

 public:
    explicit Xxh3Lanes(const u64 (&accumulators)[8]) {
        std::memcpy(accumulators_, accumulators, sizeof accumulators_);
    }

    WARREN_INLINE void take(const u8* data, u64 bytes) {
        const u8* const end = data + bytes;
        for (u64 blocks = (bytes - 1) / Xxh3::block_bytes; blocks > 0; --blocks) {
#pragma GCC unroll 16
            for (u32 stripe = 0; stripe < Xxh3::block_stripes; ++stripe)
                take_stripe(data + Xxh3::stripe_bytes * stripe, 8 * stripe);
            scramble();
            data += Xxh3::block_bytes;
        }
        const u64 rest = static_cast<u64>(end - data);
        for (u32 stripe = 0; stripe < (rest - 1) / Xxh3::stripe_bytes; ++stripe)
            take_stripe(data + Xxh3::stripe_bytes * stripe, 8 * stripe);
        take_stripe(end - Xxh3::stripe_bytes, Xxh3::last_stripe_secret);
    }

    void store(u64 (&accumulators)[8]) const {
        std::memcpy(accumulators, accumulators_, sizeof accumulators_);
    }

 private:
    static WARREN_INLINE Pair load(const u8* at) {
        Pair pair;
        std::memcpy(&pair, at, sizeof pair);
        return pair;
    }
    static WARREN_INLINE Pair load_secret(u32 offset) {
        return load(reinterpret_cast<const u8*>(Xxh3::secret_words) + offset);
    }

    /// Multiplies the low halves of x and y.
    static WARREN_INLINE Pair multiply_low(Pair x, Pair y) {
#if defined(WARREN_HASH_AVX512)
        return (Pair)_mm512_mul_epu32((__m512i)x, (__m512i)y);
#elif defined(WARREN_HASH_AVX2)
        return (Pair)_mm256_mul_epu32((__m256i)x, (__m256i)y);
#else
        return (x & 0xffffffff) * (y & 0xffffffff);
#endif
    }
    template <u64... i>
    static WARREN_INLINE Pair swap_neighbours(Pair x, std::integer_sequence<u64, i...>) {
        return __builtin_shufflevector(x, x, (i ^ 1)...);
    }

    WARREN_INLINE void take_stripe(const u8* stripe, u32 secret) {
#pragma GCC unroll 4
        for (u32 i = 0; i < vectors; ++i) {
            const Pair data = load(stripe + sizeof(Pair) * i);
            const Pair keyed = data ^ load_secret(secret + static_cast<u32>(sizeof(Pair)) * i);
            accumulators_[i] += swap_neighbours(data, std::make_integer_sequence<u64, n / 2>{}) +
                                multiply_low(keyed, keyed >> 32);
        }
    }

    WARREN_INLINE void scramble() {
#pragma GCC unroll 4
        for (u32 i = 0; i < vectors; ++i) {
            const Pair key =
                load_secret(Xxh3::scramble_secret + static_cast<u32>(sizeof(Pair)) * i);
            const Pair mixed = accumulators_[i] ^ accumulators_[i] >> 47 ^ key;
            const Pair prime = Pair{} + Xxh3::prime32_1;
            accumulators_[i] =
                multiply_low(mixed, prime) + (multiply_low(mixed >> 32, prime) << 32);
        }
    }

    Pair accumulators_[vectors];
};

template <u32 n>
void hash_xxh3_in_lanes(u64 (&accumulators)[8], const u8* data, u64 bytes) {
    Xxh3Lanes<n> lanes(accumulators);
    lanes.take(data, bytes);
    lanes.store(accumulators);
}

}  // namespace
}  // namespace warren::hash
