// SPDX-License-Identifier: Apache-2.0
// Scans for candidates of buzhash. Its windows have up to 4095 bytes, too many to hold: a lane
// reads its run in two places at a time, where bytes enter the window and where they leave it. One
// table serves both, since a leaving byte's entry has been rotated by the length of the window.
//
// Invariant: as in scan_kernel.cuh; bytes before the stream contribute nothing.
#pragma once

#include <cuda_runtime.h>

#include "chunk/cuda/scan_kernel.cuh"

namespace warren::chunk::cuda {

inline constexpr u32 buzhash_copies = 32;  // of the table: one per bank

/// What buzhash matches. `entries` has 256 elements, which include the seed.
struct BuzhashScan {
    const u32* entries;
    u32 window;
    u32 mask;
    u32 value;
};

/// Reads bytes from any position on, four at a time.
class ByteWords {
 public:
    /// Does not read a word without bytes of [first, last).
    __device__ ByteWords(const u8* bytes, i64 first, i64 last, i64 at)
        : bytes_(bytes), first_(first), last_(last), at_(at & ~i64{3}), shift_(at & 3) {
        if (shift_ != 0) low_ = load();
    }
    __device__ u32 next() {
        if (shift_ == 0) return load();
        const u32 high = load();
        const u32 word = __funnelshift_r(low_, high, 8 * shift_);
        low_ = high;
        return word;
    }

 private:
    __device__ u32 load() {
        const i64 at = at_;
        at_ += 4;
        if (at >= first_ && at + 4 <= last_) return *reinterpret_cast<const u32*>(bytes_ + at);
        u32 word = 0;
        for (u32 byte = 0; byte < 4; ++byte) {
            const i64 place = at + byte;
            if (place >= first_ && place < last_)
                word |= static_cast<u32>(bytes_[place]) << (8 * byte);
        }
        return word;
    }

    const u8* bytes_;
    i64 first_;
    i64 last_;
    i64 at_;
    u32 shift_;
    u32 low_ = 0;
};

/// The hash of one lane.
class Buzhash {
 public:
    __device__ Buzhash(const BuzhashScan& scan, const u32* table)
        : table_(table + threadIdx.x % 32), turn_(scan.window % 32) {}

    __device__ void enter(u32 byte) { hash_ = __funnelshift_l(hash_, hash_, 1) ^ entry(byte); }
    __device__ void leave(u32 byte) {
        const u32 out = entry(byte);
        hash_ ^= __funnelshift_l(out, out, turn_);
    }
    __device__ u32 hash() const { return hash_; }

 private:
    __device__ u32 entry(u32 byte) const { return table_[(byte & 0xff) * buzhash_copies]; }

    const u32* table_;
    u32 turn_;
    u32 hash_ = 0;
};

/// Each lane scans one run.
__global__ void buzhash_kernel(BuzhashScan scan, ScanWork work) {
    u32* const table = reinterpret_cast<u32*>(scan_memory);
    for (u32 at = threadIdx.x; at < 256 * buzhash_copies; at += blockDim.x)
        table[at] = scan.entries[at / buzhash_copies];
    __syncthreads();
    const i64 count = static_cast<i64>(work.count);
    const i64 begin = (static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x) * work.run_bytes;
    if (begin >= count) return;
    const i64 window = scan.window;
    const i64 first = work.has_history ? -window : 0;
    Buzhash hash(scan, table);
    for (i64 at = begin - window > first ? begin - window : first; at < begin; ++at)
        hash.enter(work.bytes[at]);
    ByteWords entering(work.bytes, first, count, begin);
    ByteWords leaving(work.bytes, first, count, begin - window);
    const i64 end = begin + work.run_bytes < count ? begin + work.run_bytes : count;
    for (i64 at = begin; at < end; at += 64) {
        u64 word = 0;
        for (u32 part = 0; part < 64; part += 4) {
            const u32 in = entering.next();
            const u32 out = leaving.next();
#pragma unroll
            for (u32 byte = 0; byte < 4; ++byte) {
                hash.enter(in >> (8 * byte));
                if (at + part + byte >= first + window) hash.leave(out >> (8 * byte));
                if ((hash.hash() & scan.mask) == scan.value) word |= u64{1} << (part + byte);
            }
        }
        if (count - at < 64) word &= (u64{1} << (count - at)) - 1;
        work.bits[at / 64] = word;
        if (word != 0) {
            device_atomic<u32>(work.tile_counts[at >> tile_shift])
                .fetch_add(static_cast<u32>(__popcll(word)), hd::memory_order_relaxed);
        }
    }
}

}  // namespace warren::chunk::cuda
