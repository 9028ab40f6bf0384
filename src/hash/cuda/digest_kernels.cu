// SPDX-License-Identifier: Apache-2.0
// MD5, SHA-1 and SHA-256 of many pieces: one thread per piece, all rounds unrolled.
//
// Invariant: the digests equal those of the CPU for any alignment and length of the pieces.
#include "gpu/failure.hpp"
#include "hash/cuda/digest_kernels.hpp"
#include "hash/cuda/kernels.hpp"
#include "hash/cuda/reading.cuh"
#include "hash/md5.hpp"
#include "hash/sha1.hpp"
#include "hash/sha256.hpp"

namespace warren::hash::cuda {
namespace {

template <class Digest>
__device__ __forceinline__ void take_block(u32 (&state)[Digest::state_words], u32 (&message)[16]) {
    if constexpr (Digest::is_big_endian) {
#pragma unroll
        for (int i = 0; i < 16; ++i)
            message[i] = __byte_perm(message[i], 0, 0x0123);
    }
    Digest::compress(state, message);
}

/// Processes the padding: one block, or two if the length does not fit after the remaining bytes.
/// One copy of the rounds serves both.
template <class Digest>
__device__ void take_end(u32 (&state)[Digest::state_words], const u8* rest, u32 rest_bytes,
                         u64 length_bytes) {
    u32 message[16];
    load_rest(rest, rest_bytes, message);
#pragma unroll
    for (u32 i = 0; i < 16; ++i) {
        if (i == rest_bytes / 4) message[i] |= 0x80u << (8 * (rest_bytes % 4));
    }
    const u64 bits = length_bytes * 8;
    for (bool is_last = rest_bytes < 56;; is_last = true) {
        if (is_last) {
            const u32 low = static_cast<u32>(bits);
            const u32 high = static_cast<u32>(bits >> 32);
            message[14] = Digest::is_big_endian ? byte_swap(high) : low;
            message[15] = Digest::is_big_endian ? byte_swap(low) : high;
        }
        take_block<Digest>(state, message);
        if (is_last) return;
#pragma unroll
        for (int i = 0; i < 16; ++i)
            message[i] = 0;
    }
}

template <class Digest, bool is_aligned>
__global__ void __launch_bounds__(block_threads)
    hash_pieces_kernel(DevicePieces pieces, DeviceBeginning beginning, u8* digests) {
    const u64 i = u64{blockIdx.x} * block_threads + threadIdx.x;
    if (i >= pieces.count) return;
    const Piece piece = piece_at(pieces, i);
    u32 state[Digest::state_words];
#pragma unroll
    for (int word = 0; word < Digest::state_words; ++word)
        state[word] = beginning.state[word];
    const u64 blocks = piece.bytes / 64;
    BlockReader<is_aligned> reader(piece.data, blocks != 0);
    for (u64 block = 0; block < blocks; ++block) {
        u32 message[16];
        reader.next(message);
        take_block<Digest>(state, message);
    }
    take_end<Digest>(state, piece.data + blocks * 64, static_cast<u32>(piece.bytes % 64),
                     beginning.bytes + piece.bytes);
#pragma unroll
    for (int word = 0; word < Digest::state_words; ++word) {
        if constexpr (Digest::is_big_endian) state[word] = byte_swap(state[word]);
    }
    store_words(state, Digest::state_words, digests + i * Digest::digest_bytes);
}

template <class Digest>
Errc launch(const DevicePieces& pieces, DeviceBeginning beginning, u8* digests,
            StreamHandle stream) {
    if (beginning.bytes == 0) {
        for (int i = 0; i < Digest::state_words; ++i)
            beginning.state[i] = Digest::initial[i];
    }
    const u32 grid = grid_for(pieces.count);
    if (are_aligned(pieces)) {
        hash_pieces_kernel<Digest, true>
            <<<grid, block_threads, 0, stream>>>(pieces, beginning, digests);
    } else {
        hash_pieces_kernel<Digest, false>
            <<<grid, block_threads, 0, stream>>>(pieces, beginning, digests);
    }
    return gpu::check(cudaGetLastError(), "hash_pieces_kernel");
}

}  // namespace

Errc hash_pieces(Algorithm algorithm, const DevicePieces& pieces, const DeviceBeginning& beginning,
                 u8* digests, StreamHandle stream) {
    if (pieces.count == 0) return Errc::ok;
    switch (algorithm) {
        case Algorithm::md5:
            return launch<Md5>(pieces, beginning, digests, stream);
        case Algorithm::sha1:
            return launch<Sha1>(pieces, beginning, digests, stream);
        case Algorithm::sha256:
            return launch<Sha256>(pieces, beginning, digests, stream);
        case Algorithm::blake3:
            return hash_pieces_blake3(pieces, digests, stream);
        default:
            return hash_pieces_xxh3(pieces, digests, stream);
    }
}

}  // namespace warren::hash::cuda
