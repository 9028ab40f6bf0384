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

/// What all phases read, in shared memory: nearer than a kernel's parameters.
struct Values {
    ops::Batch batch;
    core::Store store;
};

__global__ void __launch_bounds__(block_threads, 1)
    run_small(const __grid_constant__ core::Store store, const __grid_constant__ SmallBatch call) {
    __shared__ BlockCrowd::Shared shared;
    __shared__ alignas(16) std::byte memory[sizeof(Values)];
    auto& values = *reinterpret_cast<Values*>(memory);
    if (threadIdx.x == 0) {
        values.batch = call.batch;
        values.store = store;
    }
    for (u64 i = threadIdx.x; i * sizeof(uint4) < call.in_bytes; i += blockDim.x)
        call.device_in[i] = call.host_in[i];
    if (threadIdx.x == 0) {
        *call.batch.state = ops::BatchState{};
        call.batch.state->limit = call.batch.end;
    }
    __syncthreads();
    BlockCrowd crowd(shared);
    ops::Batch& batch = values.batch;
    const ops::BatchState state = ops::batch::run(crowd, batch, values.store);
    if (state.status == Errc::ok) {
        give(call.host_codes, batch.codes, batch.begin, state.limit);
        give(call.host_made, batch.made, batch.begin, state.limit);
        give(call.host_attributes, batch.attributes, batch.begin, state.limit);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        *call.host_state = state;
        // Release, for what all threads gave: pairs with the acquire in
        // ItemBatch::wait_for_small().
        __threadfence_system();
        system_atomic<u64>(*call.host_sequence).store(call.sequence, hd::memory_order_release);
    }
}

}  // namespace

Errc launch_small_batch(const core::Store& store, const SmallBatch& call, cudaStream_t stream) {
    run_small<<<1, block_threads, 0, stream>>>(store, call);
    return gpu::check(cudaGetLastError(), "a small batch");
}

}  // namespace warren::cuda_engine
