// SPDX-License-Identifier: Apache-2.0
// One block of threads copies the metadata block with coalesced accesses.
#include "fs/engine/cuda/store/device_kernels.hpp"
#include "fs/ops/show_block.hpp"
#include "gpu/failure.hpp"
#include "team/team.hpp"

namespace warren::cuda_engine {
namespace {

constexpr u32 threads_per_block = 256;

/// ops::show_block() by one block of threads.
__global__ void publish_kernel(core::Store store, u64 place, const format::Block* from) {
    __shared__ bool is_due;
    if (threadIdx.x == 0) {
        // The host may have loaded the block for another kind. That does no harm: all blocks of a
        // frame of inodes are resident, and those of others are written before they are used.
        const format::FrameKind kind = core::kind_of(store, place / format::frame_size);
        is_due = ops::begin_showing(store, place, kind);
    }
    __syncthreads();
    if (!is_due) return;
    auto* target = reinterpret_cast<u64*>(store.base + place);
    for (u32 i = threadIdx.x; i < format::block_size / 8; i += blockDim.x)
        relaxed_store(target[i], from->words[i]);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) ops::end_showing(store, place);
}

}  // namespace

Errc publish_block(const core::Store& store, u64 place, const format::Block* from,
                   cudaStream_t stream) {
    publish_kernel<<<1, threads_per_block, 0, stream>>>(store, place, from);
    return gpu::check(cudaGetLastError(), "publish_block");
}

}  // namespace warren::cuda_engine
