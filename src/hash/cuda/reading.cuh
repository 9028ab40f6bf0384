// SPDX-License-Identifier: Apache-2.0
// Reads a message of any alignment as words: uses only aligned 16-byte loads, and shifts the words
// into place in registers. An aligned message needs no shifts.
//
// Invariant: every load contains at least one byte of the message, so none leaves its allocation.
#pragma once

#include <cuda_runtime.h>

#include "hash/cuda/kernels.hpp"
#include "hash/word.hpp"

namespace warren::hash::cuda {

struct Piece {
    const u8* data;
    u64 bytes;
};

__device__ inline Piece piece_at(const DevicePieces& pieces, u64 i) {
    if (pieces.piece_bytes == 0) return {pieces.data + pieces.offsets[i], pieces.lengths[i]};
    const u64 offset = i * pieces.piece_bytes;
    const u64 rest = pieces.data_bytes - offset;
    return {pieces.data + offset, rest < pieces.piece_bytes ? rest : pieces.piece_bytes};
}

/// Shifts the words by `shift_bytes`, which is below 16, towards the front: of count + 4 words the
/// first `count` are then valid.
template <int count>
__device__ __forceinline__ void shift_words(u32 (&words)[count + 4], u32 shift_bytes) {
    const bool by_two = (shift_bytes & 8) != 0;
    const bool by_one = (shift_bytes & 4) != 0;
    const u32 bits = shift_bytes % 4 * 8;
#pragma unroll
    for (int i = 0; i < count + 2; ++i)
        words[i] = by_two ? words[i + 2] : words[i];
#pragma unroll
    for (int i = 0; i < count + 1; ++i)
        words[i] = by_one ? words[i + 1] : words[i];
#pragma unroll
    for (int i = 0; i < count; ++i)
        words[i] = __funnelshift_r(words[i], words[i + 1], bits);
}

/// Loads 16 bytes from an aligned address in global memory. The hint brings the whole 128-byte line
/// into the L2 cache: each thread needs the other half next, and fetching halves from memory is
/// much slower (MD5 of 4 KiB pieces: 3.7 instead of 2.3 TB/s on one H200).
__device__ __forceinline__ void load_16(const u8* at, u32* words) {
    asm("ld.global.nc.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
        : "l"(at));
}

/// Reads the 64-byte blocks of a message one after the other, as little-endian words.
template <bool is_aligned>
class BlockReader {
 public:
    __device__ BlockReader(const u8* data, bool has_blocks) {
        if constexpr (is_aligned) {
            at_ = data;
        } else {
            shift_ = static_cast<u32>(reinterpret_cast<u64>(data) % 16);
            at_ = data - shift_;
            if (has_blocks && shift_ != 0) load_16(at_, carried_);
        }
    }

    /// Reads the next block. Requires: there is one.
    __device__ __forceinline__ void next(u32 (&message)[16]) {
        if constexpr (is_aligned) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                load_16(at_ + 16 * i, message + 4 * i);
        } else {
            u32 words[20];
            if (shift_ == 0) {
                // The last 16 bytes would be past the end of the message.
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    load_16(at_ + 16 * i, words + 4 * i);
#pragma unroll
                for (int i = 16; i < 20; ++i)
                    words[i] = 0;
            } else {
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    words[i] = carried_[i];
#pragma unroll
                for (int i = 1; i < 5; ++i)
                    load_16(at_ + 16 * i, words + 4 * i);
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    carried_[i] = words[16 + i];
            }
            shift_words<16>(words, shift_);
#pragma unroll
            for (int i = 0; i < 16; ++i)
                message[i] = words[i];
        }
        at_ += 64;
    }

 private:
    const u8* at_;
    u32 shift_ = 0;
    u32 carried_[4] = {};
};

/// Loads the last bytes of a message, fewer than 64, as little-endian words, followed by zeros.
__device__ __forceinline__ void load_rest(const u8* at, u32 bytes, u32 (&message)[16]) {
#pragma unroll
    for (u32 i = 0; i < 16; ++i) {
        u32 word = 0;
        if (4 * i < bytes) {
#pragma unroll
            for (u32 byte = 0; byte < 4; ++byte) {
                if (4 * i + byte < bytes) word |= static_cast<u32>(at[4 * i + byte]) << (8 * byte);
            }
        }
        message[i] = word;
    }
}

/// Stores `count` words at any alignment.
__device__ __forceinline__ void store_words(const u32* words, u32 count, u8* at) {
    if (reinterpret_cast<u64>(at) % 4 == 0) {
        for (u32 i = 0; i < count; ++i)
            reinterpret_cast<u32*>(at)[i] = words[i];
        return;
    }
    for (u32 i = 0; i < 4 * count; ++i)
        at[i] = static_cast<u8>(words[i / 4] >> (8 * (i % 4)));
}

/// Whether every piece begins at a multiple of 16 bytes.
inline bool are_aligned(const DevicePieces& pieces) {
    return pieces.piece_bytes % 16 == 0 && pieces.piece_bytes != 0 &&
           reinterpret_cast<u64>(pieces.data) % 16 == 0;
}

constexpr u32 block_threads = 128;

inline u32 grid_for(u64 threads) {
    return static_cast<u32>((threads + block_threads - 1) / block_threads);
}

}  // namespace warren::hash::cuda
