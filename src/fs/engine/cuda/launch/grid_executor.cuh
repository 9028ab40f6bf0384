// SPDX-License-Identifier: Apache-2.0
// The executor of fs/bulk/batch/batch_run.hpp on a whole GPU: each phase is a launch with a thread
// for each item, CUB sorts and sums, and everything is queued in one stream.
//
// Invariant: after a failure nothing more is queued; code() is the error.
#pragma once

#include <cuda_runtime_api.h>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include "fs/bulk/batch/batch.hpp"
#include "gpu/buffer.hpp"
#include "gpu/failure.hpp"
#include "gpu/stream.hpp"

namespace warren::cuda_engine {

inline constexpr u32 phase_threads = 256;
inline constexpr u64 phase_blocks_max = 132 * 16;

template <class Phase>
__global__ void __launch_bounds__(phase_threads)
    run_phase(const __grid_constant__ ops::Batch batch, const __grid_constant__ core::Store store,
              u64 argument, u64 count) {
    const Phase phase{{batch, store, argument}};
    const u64 threads = u64{gridDim.x} * blockDim.x;
    for (u64 i = u64{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += threads)
        phase(i);
}

class GridExecutor {
 public:
    static constexpr bool is_near = false;
    static constexpr bool can_clone = true;

    /// Requires: all arguments outlive this; `state` is one value in pinned memory.
    GridExecutor(const gpu::Stream& stream, gpu::DeviceBuffer<std::byte>& memory,
                 ops::BatchState* state)
        : stream_(stream), memory_(memory), state_(state) {}

    Errc code() const { return code_; }

    template <class Phase>
    void each(u64 count, const Phase& phase) {
        if (count == 0 || code_ != Errc::ok) return;
        const u64 wanted = (count + phase_threads - 1) / phase_threads;
        const auto blocks = static_cast<u32>(wanted < phase_blocks_max ? wanted : phase_blocks_max);
        run_phase<Phase><<<blocks, phase_threads, 0, stream_.get()>>>(phase.b, phase.store,
                                                                      phase.argument, count);
        code_ = gpu::check(cudaGetLastError(), "a phase of a batch");
    }

    void sort(ops::Batch& batch, u64 count, u32 bits) {
        cub::DoubleBuffer<u64> keys(batch.sort_keys, batch.sort_keys_other);
        cub::DoubleBuffer<u32> values(batch.order, batch.order_other);
        with_memory("sorting a batch", [&](void* memory, std::size_t& bytes) {
            return cub::DeviceRadixSort::SortPairs(memory, bytes, keys, values,
                                                   static_cast<i64>(count), 0,
                                                   static_cast<int>(bits), stream_.get());
        });
        batch.sort_keys = keys.Current();
        batch.sort_keys_other = keys.Alternate();
        batch.order = values.Current();
        batch.order_other = values.Alternate();
    }

    void sum(const u32* from, u32* to, u64 count) {
        if (count == 0) return;
        with_memory("summing a batch up", [&](void* memory, std::size_t& bytes) {
            return cub::DeviceScan::ExclusiveSum(memory, bytes, from, to, static_cast<i64>(count),
                                                 stream_.get());
        });
    }

    ops::BatchState look(const ops::BatchState& state) {
        if (code_ == Errc::ok) code_ = stream_.copy(state_, &state, sizeof state);
        if (code_ == Errc::ok) code_ = stream_.wait();
        ops::BatchState seen = *state_;
        if (code_ != Errc::ok) seen.status = Errc::io;
        return seen;
    }

 private:
    /// Calls `call` once to learn how much memory it needs, and again with that memory.
    template <class Call>
    void with_memory(const char* what, const Call& call) {
        if (code_ != Errc::ok) return;
        std::size_t bytes = 0;
        code_ = gpu::check(call(nullptr, bytes), what);
        // Queued work may use the present memory, so wait before it is replaced.
        if (code_ == Errc::ok && bytes > memory_.bytes()) code_ = stream_.wait();
        if (code_ == Errc::ok) code_ = memory_.reserve(bytes);
        if (code_ == Errc::ok) code_ = gpu::check(call(memory_.data(), bytes), what);
    }

    const gpu::Stream& stream_;
    gpu::DeviceBuffer<std::byte>& memory_;
    ops::BatchState* state_;
    Errc code_ = Errc::ok;
};

}  // namespace warren::cuda_engine
