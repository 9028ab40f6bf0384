// SPDX-License-Identifier: Apache-2.0
// Computes the gear hash of any 64 bytes on eight lanes. Each lane hashes eight of the bytes. A
// byte's contribution is shifted up by one bit for each later byte, so three shuffles combine the
// lanes' sums.
//
// Invariant: no byte outside of the data is read. All lanes of a warp take part.
#pragma once

#include <cuda_runtime.h>

#include "warren/types.hpp"

namespace warren::chunk::cuda {

inline constexpr u32 window_lanes = 8;
inline constexpr u32 lane_bytes = 8;  // of a window, per lane

/// Data of which [first, last) may be read; `bytes` is aligned to 4.
struct DataRange {
    const u8* bytes;
    i64 first;
    i64 last;
};

/// The four bytes at `at`, a multiple of 4; bytes outside of the range are zero.
__device__ inline u32 load_word(const DataRange& data, i64 at) {
    if (at >= data.first && at + 4 <= data.last)
        return *reinterpret_cast<const u32*>(data.bytes + at);
    u32 word = 0;
    for (u32 byte = 0; byte < 4; ++byte) {
        const i64 place = at + byte;
        if (place >= data.first && place < data.last)
            word |= static_cast<u32>(data.bytes[place]) << (8 * byte);
    }
    return word;
}

/// Copies the 256 entries of the gear table to shared memory. All threads of a block call it.
__device__ inline void load_table(u64* table, const u64* entries) {
    for (u32 at = threadIdx.x; at < 256; at += blockDim.x)
        table[at] = entries[at];
    __syncthreads();
}

/// A lane's part of the hash of 64 bytes.
class WindowPart {
 public:
    /// All eight lanes pass the same `from`.
    __device__ WindowPart(const u64* table, const DataRange& data, i64 from)
        : lane_(threadIdx.x % window_lanes) {
        const i64 own = from + lane_ * lane_bytes;
        const i64 aligned = own & ~i64{3};
        const u32 shift = static_cast<u32>(own - aligned) * 8;
        const u32 middle = load_word(data, aligned + 4);
        const u32 low = __funnelshift_r(load_word(data, aligned), middle, shift);
        const u32 high = __funnelshift_r(middle, load_word(data, aligned + 8), shift);
        u64 hash = 0;
#pragma unroll
        for (u32 byte = 0; byte < lane_bytes; ++byte) {
            const u32 word = byte < 4 ? low : high;
            hash = hash + hash + table[word >> (8 * (byte % 4)) & 0xff];
            hashes_[byte] = hash;
        }
        up_to_here_ = hash;
#pragma unroll
        for (u32 step = 1; step < window_lanes; step *= 2) {
            const u64 other = __shfl_up_sync(~0u, up_to_here_, step, window_lanes);
            if (lane_ >= step) up_to_here_ += other << (lane_bytes * step);
        }
        before_ = __shfl_up_sync(~0u, up_to_here_, 1, window_lanes);
        if (lane_ == 0) before_ = 0;
    }

    /// The number of this lane among the eight.
    __device__ u32 lane() const {
        return lane_;
    }
    /// The hash of the whole window; valid in the last lane.
    __device__ u64 whole() const {
        return up_to_here_;
    }
    /// The hash of the window's bytes up to and including the lane's own byte `byte`.
    __device__ u64 begin_up_to(u32 byte) const {
        return (before_ << (byte + 1)) + hashes_[byte];
    }

 private:
    u32 lane_;
    u64 hashes_[lane_bytes];  // of the lane's own bytes alone
    u64 up_to_here_;
    u64 before_;
};

}  // namespace warren::chunk::cuda
