// SPDX-License-Identifier: Apache-2.0
// A commit snapshot is two launches. The second uses the list that the first has made, which the
// host need not read in between. A warp copies one block at a time, sixteen bytes a lane. Plain
// loads, which run at the speed of memory, are safe because no operation applies meanwhile.
#include "fs/engine/cuda/store/commit_kernels.hpp"
#include "fs/ops/inode_frame.hpp"
#include "gpu/failure.hpp"
#include "team/warp_team.hpp"

namespace warren::cuda_engine {
namespace {

constexpr u32 warps_per_block = 8;
constexpr u32 threads_per_block = warps_per_block * WarpTeam::width;
constexpr u32 cut_blocks = 528;  // four on each multiprocessor of a large GPU
constexpr u32 publish_blocks_max = 64;

__device__ u64 warp_index() {
    return (u64{blockIdx.x} * blockDim.x + threadIdx.x) / WarpTeam::width;
}
__device__ ops::CutShare share_of_warp() {
    return {warp_index(), u64{gridDim.x} * warps_per_block};
}

/// Copies a block that no thread is changing. All loads are issued before the first store.
struct CopyQuads {
    __device__ void operator()(const WarpTeam& team, const format::Block& from,
                               format::Block& to) const {
        constexpr u32 rounds = format::block_size / sizeof(uint4) / WarpTeam::width;
        const auto* const source = reinterpret_cast<const uint4*>(&from) + team.lane();
        auto* const target = reinterpret_cast<uint4*>(&to) + team.lane();
        uint4 quads[rounds];
#pragma unroll
        for (u32 i = 0; i < rounds; ++i)
            quads[i] = source[i * WarpTeam::width];
#pragma unroll
        for (u32 i = 0; i < rounds; ++i)
            target[i * WarpTeam::width] = quads[i];
    }
};

__global__ void list_kernel(core::Store store, ops::CutArea area) {
    const WarpTeam team{static_cast<u32>(warp_index())};
    ops::list_dirty(team, store, area, share_of_warp());
}

__global__ void gather_kernel(core::Store store, ops::CutArea area) {
    const WarpTeam team{static_cast<u32>(warp_index())};
    ops::gather_dirty(team, store, area, share_of_warp(), CopyQuads());
}

__global__ void release_kernel(core::Store store, const u64* places, u64 count) {
    const WarpTeam team{static_cast<u32>(warp_index())};
    ops::release_cut(team, store, places, count, share_of_warp());
}

__global__ void publish_kernel(core::Store store, ops::CommittedFrame* frames, u64 frame_count,
                               const u64* empty, u64 empty_count) {
    const WarpTeam team{static_cast<u32>(warp_index())};
    const ops::CutShare share = share_of_warp();
    for (u64 i = share.index; i < frame_count + empty_count; i += share.count) {
        if (i < frame_count) {
            ops::publish_committed(team, store, frames[i]);
            continue;
        }
        core::Operation<WarpTeam> op(team, store);
        op.commits_wait = true;  // this runs within a commit
        // On failure an operation uses the frame, and it stays an inode frame.
        static_cast<void>(ops::end_inode_frame(op, load(team, empty[i - frame_count])));
        core::finish(op);
    }
}

/// Loads a kernel: cudaFuncGetAttributes() does so as a side effect.
template <class... Parameters>
Errc load(void (*kernel)(Parameters...)) {
    cudaFuncAttributes needs;
    return gpu::check(cudaFuncGetAttributes(&needs, kernel), "cudaFuncGetAttributes");
}

}  // namespace

Errc load_commit_kernels() {
    WARREN_TRY(load(list_kernel));
    WARREN_TRY(load(gather_kernel));
    WARREN_TRY(load(release_kernel));
    return load(publish_kernel);
}

Errc launch_list(const core::Store& store, const ops::CutArea& area, cudaStream_t stream) {
    list_kernel<<<cut_blocks, threads_per_block, 0, stream>>>(store, area);
    return gpu::check(cudaGetLastError(), "list_dirty");
}

Errc launch_cut(const core::Store& store, const ops::CutArea& area, cudaStream_t stream) {
    WARREN_TRY(launch_list(store, area, stream));
    gather_kernel<<<cut_blocks, threads_per_block, 0, stream>>>(store, area);
    return gpu::check(cudaGetLastError(), "gather_dirty");
}

Errc launch_release(const core::Store& store, const u64* places, u64 count, cudaStream_t stream) {
    if (count == 0 || store.heads == nullptr) return Errc::ok;
    release_kernel<<<cut_blocks, threads_per_block, 0, stream>>>(store, places, count);
    return gpu::check(cudaGetLastError(), "release_cut");
}

Errc launch_publish(const core::Store& store, ops::CommittedFrame* frames, u64 frame_count,
                    const u64* empty, u64 empty_count, cudaStream_t stream) {
    const u64 parts = frame_count + empty_count;
    if (parts == 0) return Errc::ok;
    const u64 blocks = (parts + warps_per_block - 1) / warps_per_block;
    const u32 grid = static_cast<u32>(blocks < publish_blocks_max ? blocks : publish_blocks_max);
    publish_kernel<<<grid, threads_per_block, 0, stream>>>(store, frames, frame_count, empty,
                                                           empty_count);
    return gpu::check(cudaGetLastError(), "publish");
}

}  // namespace warren::cuda_engine
