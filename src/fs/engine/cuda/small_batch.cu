// SPDX-License-Identifier: Apache-2.0
// Everything is copied to device memory before the first phase: a phase that read the host's would
// wait for the bus at each step.
#include "fs/engine/cuda/small_batch.hpp"

#include "fs/engine/cuda/block_crowd.cuh"
#include "fs/ops/batch_run.hpp"
#include "gpu/failure.hpp"

namespace warren::cuda_engine {
namespace {

static_assert(small_records_max <= block_records);

/// Copies what answers there are of the items [begin, end).
template <class T>
__device__ void give(T* to, const T* from, u64 begin, u64 end) {
    if (to == nullptr) return;
    constexpr u64 words = sizeof(T) / sizeof(u32);
    const auto* source = reinterpret_cast<const u32*>(from);
    auto* target = reinterpret_cast<u32*>(to);
    for (u64 i = begin * words + threadIdx.x; i < end * words; i += blockDim.x)
        target[i] = source[i];
}

__global__ void __launch_bounds__(block_threads, 1)
    run_small(const __grid_constant__ core::Store store, const __grid_constant__ SmallBatch call) {
    __shared__ BlockCrowd::Shared shared;
    ops::Batch batch = call.batch;
    for (u64 i = threadIdx.x; i * sizeof(uint4) < call.in_bytes; i += blockDim.x)
        call.device_in[i] = call.host_in[i];
    if (threadIdx.x == 0) {
        *batch.state = ops::BatchState{};
        batch.state->limit = batch.end;
    }
    __syncthreads();
    BlockCrowd crowd(shared);
    const ops::BatchState state = ops::batch::run(crowd, batch, store);
    if (state.status == Errc::ok) {
        give(call.host_codes, batch.codes, batch.begin, state.limit);
        give(call.host_made, batch.made, batch.begin, state.limit);
        give(call.host_attributes, batch.attributes, batch.begin, state.limit);
    }
    if (threadIdx.x == 0) *call.host_state = state;
}

}  // namespace

Errc launch_small_batch(const core::Store& store, const SmallBatch& call, cudaStream_t stream) {
    run_small<<<1, block_threads, 0, stream>>>(store, call);
    return gpu::check(cudaGetLastError(), "a small batch");
}

}  // namespace warren::cuda_engine
