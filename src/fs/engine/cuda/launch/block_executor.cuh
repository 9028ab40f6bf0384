// SPDX-License-Identifier: Apache-2.0
// The executor of fs/bulk/batch/batch_run.hpp on one block of threads, for small batches. Phases
// are separated by barriers.
//
// Invariant: all threads of the block make the same calls.
#pragma once

#include <cuda_runtime_api.h>

#include "fs/bulk/batch/batch.hpp"

namespace warren::cuda_engine {

inline constexpr u32 block_threads = 512;
/// How many records a block can sort, which bounds the size of its batches.
inline constexpr u32 block_records = 4096;

class BlockExecutor {
 public:
    /// The shared memory of the block.
    struct Shared {
        u64 keys[block_records];
        u16 places[block_records];
        u32 sums[block_threads / 32];
    };

    static constexpr bool is_near = true;
    static constexpr bool can_clone = false;  // would cost the others registers

    __device__ explicit BlockExecutor(Shared& shared) : shared_(shared) {}

    template <class Phase>
    __device__ void each(u64 count, const Phase& phase) {
#pragma unroll 1
        for (u32 i = threadIdx.x; i < count; i += block_threads)
            phase(i);
        __syncthreads();
    }

    /// `batch` is shared by all threads. Not inlined, like sum(), because many phases call it and
    /// instructions that were executed before are in the instruction cache.
    __device__ __noinline__ void sort(ops::Batch& batch, u64 count, u32 bits) {
        const u64 mask = bits == 64 ? ~u64{0} : (u64{1} << bits) - 1;
        const auto keys = static_cast<u32>(count);
        if (keys <= block_threads) {
            sort_by_rank(batch, keys, mask);
        } else {
            sort_by_merging(batch, keys, mask);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            swap(batch.sort_keys, batch.sort_keys_other);
            swap(batch.order, batch.order_other);
        }
        __syncthreads();
    }

    /// Exclusive prefix sums: first within each thread's part, then over warps, then the block.
    __device__ __noinline__ void sum(const u32* from, u32* to, u64 count) {
        const u32 part = (static_cast<u32>(count) + block_threads - 1) / block_threads;
        const u32 begin = threadIdx.x * part;
        const u32 end = begin + part < count ? begin + part : static_cast<u32>(count);
        u32 mine = 0;
#pragma unroll 1
        for (u32 i = begin; i < end; ++i)
            mine += from[i];
        u32 before = sum_before(mine);
#pragma unroll 1
        for (u32 i = begin; i < end; ++i) {
            const u32 value = from[i];
            to[i] = before;
            before += value;
        }
        __syncthreads();
    }

    __device__ ops::BatchState look(const ops::BatchState& state) {
        return state;
    }

 private:
    template <class T>
    static __device__ void swap(T*& one, T*& other) {
        T* const kept = one;
        one = other;
        other = kept;
    }

    /// The new place of a key is the number of keys that come before it: smaller keys, and equal
    /// keys with a lower index. One key for each thread.
    __device__ void sort_by_rank(ops::Batch& batch, u32 count, u64 mask) {
        const u32 mine = threadIdx.x;
        const u64 whole = mine < count ? batch.sort_keys[mine] : 0;
        const u64 key = whole & mask;
        shared_.keys[mine] = key;
        __syncthreads();
        if (mine >= count) return;
        u32 rank = 0;
#pragma unroll 4
        for (u32 i = 0; i < count; ++i) {
            const u64 other = shared_.keys[i];
            rank += other < key || (other == key && i < mine) ? 1 : 0;
        }
        batch.sort_keys_other[rank] = whole;
        batch.order_other[rank] = batch.order[mine];
    }

    /// A bitonic sort of pairs (key, index). No two pairs are equal, so the sort is stable.
    __device__ void sort_by_merging(ops::Batch& batch, u32 count, u64 mask) {
        u32 padded = block_threads;
        while (padded < count)
            padded *= 2;
        for (u32 i = threadIdx.x; i < padded; i += block_threads) {
            shared_.keys[i] = i < count ? batch.sort_keys[i] & mask : ~u64{0};
            shared_.places[i] = static_cast<u16>(i);
        }
        __syncthreads();
        for (u32 size = 2; size <= padded; size *= 2) {
            for (u32 stride = size / 2; stride > 0; stride /= 2) {
#pragma unroll 1
                for (u32 i = threadIdx.x; i < padded / 2; i += block_threads) {
                    const u32 low = (i & ~(stride - 1)) * 2 + (i & (stride - 1));
                    order(low, low + stride, (low & size) == 0);
                }
                __syncthreads();
            }
        }
        for (u32 i = threadIdx.x; i < count; i += block_threads) {
            const u32 place = shared_.places[i];
            batch.sort_keys_other[i] = batch.sort_keys[place];
            batch.order_other[i] = batch.order[place];
        }
    }

    __device__ void order(u32 low, u32 high, bool rises) {
        const u64 low_key = shared_.keys[low];
        const u64 high_key = shared_.keys[high];
        const u16 low_place = shared_.places[low];
        const u16 high_place = shared_.places[high];
        const bool is_less = low_key < high_key || (low_key == high_key && low_place < high_place);
        if (is_less == rises) return;
        shared_.keys[low] = high_key;
        shared_.keys[high] = low_key;
        shared_.places[low] = high_place;
        shared_.places[high] = low_place;
    }

    /// The sum of the values of all threads before this one.
    __device__ u32 sum_before(u32 mine) {
        const u32 lane = threadIdx.x % 32;
        const u32 warp = threadIdx.x / 32;
        u32 up_to_here = mine;
        for (u32 step = 1; step < 32; step *= 2) {
            const u32 other = __shfl_up_sync(~0u, up_to_here, step);
            if (lane >= step) up_to_here += other;
        }
        if (lane == 31) shared_.sums[warp] = up_to_here;
        __syncthreads();
        u32 before = up_to_here - mine;
        for (u32 w = 0; w < warp; ++w)
            before += shared_.sums[w];
        __syncthreads();
        return before;
    }

    Shared& shared_;
};

}  // namespace warren::cuda_engine
