// SPDX-License-Identifier: Apache-2.0
// The kernel of the resident server: one warp polls, all others work.
//
// Invariant: all blocks of the grid run concurrently, because warps wait for the polling warp.
// There are far fewer blocks than multiprocessors, and a block fits on each.
#include "fs/engine/cuda/server/server_kernel.hpp"

#include "fs/engine/cuda/server/server_warp.hpp"

namespace warren::cuda_engine {
namespace {

__global__ void __launch_bounds__(warps_per_server_block* WarpTeam::width, 1)
    serve_epoch(const __grid_constant__ ServerArguments arguments) {
    __shared__ alignas(128) std::byte memory[sizeof(BlockSpace)];
    auto& space = *reinterpret_cast<BlockSpace*>(memory);
    const u32 warp = threadIdx.x / WarpTeam::width;
    if (threadIdx.x == 0) {
        space.store = arguments.store;
        space.ring = arguments.ring;
    }
    if (threadIdx.x < warps_per_server_block) space.states[threadIdx.x] = box_idle;
    for (u32 i = threadIdx.x; i < core::VersionNotes::count; i += blockDim.x)
        space.notes.notes[i] = 0;
    __syncthreads();
    if (blockIdx.x == 0 && warp == 0) {
        dispatch(arguments, space);
    } else {
        work(arguments, space, blockIdx.x, warp);
    }
}

}  // namespace

Errc launch_epoch(const ServerArguments& arguments, u32 blocks, cudaStream_t stream) {
    serve_epoch<<<blocks, warps_per_server_block * WarpTeam::width, 0, stream>>>(arguments);
    return cudaGetLastError() == cudaSuccess ? Errc::ok : Errc::io;
}

}  // namespace warren::cuda_engine
