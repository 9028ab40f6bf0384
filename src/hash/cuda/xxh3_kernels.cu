// SPDX-License-Identifier: Apache-2.0
// XXH3 with 128 bits of many pieces: four threads per piece, each with two of the eight
// accumulators. A warp reads 64 bytes of eight pieces at a time, and each thread keeps its part of
// the secret in registers. Pieces of up to 240 bytes are hashed by one thread.
#include "gpu/failure.hpp"
#include "hash/cuda/digest_kernels.hpp"
#include "hash/cuda/reading.cuh"
#include "hash/xxh3.hpp"

namespace warren::hash::cuda {
namespace {

struct Secret {
    u64 words[24];
};

constexpr Secret make_secret() {
    Secret secret{};
    for (int i = 0; i < 24; ++i)
        secret.words[i] = Xxh3::secret_words[i];
    return secret;
}

__constant__ Secret device_secret = make_secret();

constexpr u32 team = 4;
constexpr u32 stripes = Xxh3::block_stripes;

/// The two accumulators of one thread.
struct Pair {
    u64 first;
    u64 second;

    __device__ __forceinline__ void take(const u32 (&words)[4], u64 first_key, u64 second_key) {
        const u64 one = static_cast<u64>(words[1]) << 32 | words[0];
        const u64 two = static_cast<u64>(words[3]) << 32 | words[2];
        Xxh3::accumulate(first, second, one, first_key);
        Xxh3::accumulate(second, first, two, second_key);
    }
};

/// Loads 16 bytes at any alignment.
template <bool is_aligned>
__device__ __forceinline__ void load_any_16(const u8* at, u32 (&words)[4]) {
    if constexpr (is_aligned) {
        load_16(at, words);
    } else {
        const u32 shift = static_cast<u32>(reinterpret_cast<u64>(at) % 16);
        u32 both[8] = {};
        load_16(at - shift, both);
        if (shift != 0) load_16(at - shift + 16, both + 4);
        shift_words<4>(both, shift);
#pragma unroll
        for (int i = 0; i < 4; ++i)
            words[i] = both[i];
    }
}

template <bool is_aligned>
__device__ Pair take_blocks(const Piece& piece, u32 lane, const u64* secret) {
    // Stripe s uses word s + 2 * lane and the next one.
    u64 keys[stripes + 1];
#pragma unroll
    for (u32 i = 0; i < stripes + 1; ++i)
        keys[i] = secret[2 * lane + i];
    const u64 scramble_first = secret[16 + 2 * lane];
    const u64 scramble_second = secret[17 + 2 * lane];
    Pair pair = {Xxh3::initial_at(2 * lane), Xxh3::initial_at(2 * lane + 1)};
    const u8* at = piece.data + 16 * lane;
    const u64 blocks = (piece.bytes - 1) / Xxh3::block_bytes;
    for (u64 block = 0; block < blocks; ++block) {
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            u32 words[stripes / 2][4];
#pragma unroll
            for (u32 i = 0; i < stripes / 2; ++i)
                load_any_16<is_aligned>(at + 64 * (half * stripes / 2 + i), words[i]);
#pragma unroll
            for (u32 i = 0; i < stripes / 2; ++i) {
                pair.take(words[i], keys[half * stripes / 2 + i], keys[half * stripes / 2 + i + 1]);
            }
        }
        pair.first = Xxh3::scramble(pair.first, scramble_first);
        pair.second = Xxh3::scramble(pair.second, scramble_second);
        at += Xxh3::block_bytes;
    }
    const u32 last = static_cast<u32>((piece.bytes - 1 - blocks * Xxh3::block_bytes) / 64);
#pragma unroll
    for (u32 i = 0; i < stripes; ++i) {
        if (i >= last) continue;
        u32 words[4];
        load_any_16<is_aligned>(at + 64 * i, words);
        pair.take(words, keys[i], keys[i + 1]);
    }
    return pair;
}

/// The sum over the four threads of a piece.
__device__ __forceinline__ u64 sum_of_team(u64 value) {
    value += __shfl_xor_sync(0xffffffff, value, 1);
    return value + __shfl_xor_sync(0xffffffff, value, 2);
}

template <bool is_aligned>
__global__ void __launch_bounds__(block_threads)
    hash_pieces_kernel(DevicePieces pieces, u8* digests) {
    const u64 thread = u64{blockIdx.x} * block_threads + threadIdx.x;
    const u64 i = thread / team;
    const u32 lane = threadIdx.x % team;
    const u64* secret = device_secret.words;
    Piece piece = {nullptr, 0};
    if (i < pieces.count) piece = piece_at(pieces, i);
    const bool is_long = piece.bytes > Xxh3::most_short_bytes;
    Pair pair = {0, 0};
    if (is_long) {
        pair = take_blocks<is_aligned>(piece, lane, secret);
        u32 words[4];
        load_any_16<false>(piece.data + piece.bytes - 64 + 16 * lane, words);
        const u32 key = Xxh3::last_stripe_secret + 16 * lane;
        pair.take(words, Xxh3::secret(secret, key), Xxh3::secret(secret, key + 8));
    }
    const auto folded = [&](u32 offset) {
        return Xxh3::fold(pair.first ^ Xxh3::secret(secret, offset + 16 * lane),
                          pair.second ^ Xxh3::secret(secret, offset + 16 * lane + 8));
    };
    // All threads of the warp take part; those with short pieces compute unused values.
    const u64 low = sum_of_team(folded(Xxh3::low_merge_secret));
    const u64 high = sum_of_team(folded(Xxh3::high_merge_secret));
    if (i >= pieces.count || lane != 0) return;
    Xxh3::Digest128 digest = {Xxh3::avalanche(low + piece.bytes * Xxh3::prime64_1),
                              Xxh3::avalanche(high + ~(piece.bytes * Xxh3::prime64_2))};
    if (!is_long) digest = Xxh3::hash_short(piece.data, piece.bytes, secret);
    Xxh3::store(digest, digests + i * Xxh3::digest_bytes);
}

}  // namespace

Errc hash_pieces_xxh3(const DevicePieces& pieces, u8* digests, StreamHandle stream) {
    const u32 grid = grid_for(pieces.count * team);
    if (are_aligned(pieces)) {
        hash_pieces_kernel<true><<<grid, block_threads, 0, stream>>>(pieces, digests);
    } else {
        hash_pieces_kernel<false><<<grid, block_threads, 0, stream>>>(pieces, digests);
    }
    return gpu::check(cudaGetLastError(), "hash_pieces_kernel of XXH3");
}

}  // namespace warren::hash::cuda
