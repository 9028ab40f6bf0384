// SPDX-License-Identifier: Apache-2.0
// The kernel of a rebuild, and the host code that launches it. Its warps wait for each other, so
// all of them must run concurrently, which a cooperative launch guarantees.
#include "fs/engine/cuda/launch/directory_rebuild.hpp"

#include <algorithm>

#include "fs/bulk/rebuild/directory_rebuild_worker.hpp"
#include "gpu/device.hpp"
#include "gpu/failure.hpp"
#include "team/warp_team.hpp"

namespace warren::cuda_engine {
namespace {

/// Values that all warps read all the time, copied to shared memory: kernel parameters lie behind a
/// cache that every acquire empties.
struct RebuildValues {
    core::Store store;
    RebuildRef ref;
};

__global__ void __launch_bounds__(256, 2)
    rebuild_directory(const __grid_constant__ core::Store store,
                      const __grid_constant__ RebuildRef ref,
                      const __grid_constant__ core::Credentials caller, Handle directory) {
    extern __shared__ RebuildScratch scratches[];
    __shared__ alignas(16) std::byte memory[sizeof(RebuildValues)];
    auto& values = *reinterpret_cast<RebuildValues*>(memory);
    if (threadIdx.x == 0) values.store = store;
    if (threadIdx.x == blockDim.x - 1) values.ref = ref;
    __syncthreads();
    const WarpTeam team{(blockIdx.x * blockDim.x + threadIdx.x) / WarpTeam::width};
    RebuildWorker<WarpTeam> worker(team, values.store, values.ref,
                                   scratches[threadIdx.x / WarpTeam::width]);
    worker.run(caller, directory);
}

}  // namespace

Errc DirectoryRebuild::open(const RebuildShape& shape) {
    shape_ = shape;
    const int shared_bytes = static_cast<int>(shape.warps_per_block * sizeof(RebuildScratch));
    WARREN_TRY(
        gpu::check(cudaFuncSetAttribute(reinterpret_cast<const void*>(rebuild_directory),
                                        cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes),
                   "cudaFuncSetAttribute"));
    WARREN_TRY(fit_device(static_cast<u32>(shared_bytes)));
    WARREN_TRY(stream_.open());
    WARREN_TRY(begin_.open());
    WARREN_TRY(end_.open());
    WARREN_TRY(room_.open());
    WARREN_TRY(groups_.allocate(core::groups_max));
    WARREN_TRY(report_.allocate(1));
    WARREN_TRY(stream_.fill(room_.state.data(), 0, room_.state.bytes()));
    return make_room(shape.tree_blocks);
}

Errc DirectoryRebuild::make_room(u64 tree_blocks) {
    if (tree_blocks <= room_.tree_blocks) return Errc::ok;
    const u64 bytes = room_.bytes_for(tree_blocks) + groups_.bytes() + room_.wanted.bytes();
    if (bytes > share_.bytes() && !share_.grow(bytes - share_.bytes())) {
        return gpu::fail(Errc::no_space, "packing finds no room beside the copy of the metadata");
    }
    return room_.grow(tree_blocks);
}

/// Limits the number of blocks to what the device can run concurrently.
Errc DirectoryRebuild::fit_device(u32 shared_bytes) {
    WARREN_LET(multiprocessors, gpu::multiprocessors());
    int blocks_each = 0;
    WARREN_TRY(
        gpu::check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                       &blocks_each, rebuild_directory,
                       static_cast<int>(shape_.warps_per_block * WarpTeam::width), shared_bytes),
                   "cudaOccupancyMaxActiveBlocksPerMultiprocessor"));
    const u32 fitting = *multiprocessors * static_cast<u32>(blocks_each);
    if (fitting == 0) return Errc::not_supported;
    shape_.blocks = std::min(shape_.blocks, fitting);
    return Errc::ok;
}

float DirectoryRebuild::kernel_ms() const {
    const Result<float> taken = end_.milliseconds_since(begin_);
    return taken ? *taken : 0;
}

Errc DirectoryRebuild::run(const core::Store& store, const core::Credentials& caller,
                           Handle directory, u64 tree_blocks, const RebuildWindows& windows) {
    if (caller.group_count > core::groups_max) return Errc::invalid;
    // A small tree gets fewer blocks: warps wait for each other ten times, which takes longer the
    // more there are.
    const u64 wanted = (tree_blocks + shape_.warps_per_block - 1) / shape_.warps_per_block;
    const u32 blocks = static_cast<u32>(std::clamp<u64>(wanted, 1, shape_.blocks));
    RebuildRef shared = room_.ref(u64{blocks} * shape_.warps_per_block, windows, report_.data());
    core::Store device_store = store;
    core::Credentials who = caller;
    who.groups = groups_.data();
    void* arguments[] = {&device_store, &shared, &who, &directory};
    WARREN_TRY(stream_.copy(groups_.data(), caller.groups, u64{caller.group_count} * sizeof(u32)));
    WARREN_TRY(begin_.record(stream_));
    const cudaError_t launched =
        cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(rebuild_directory), dim3(blocks),
                                    dim3(shape_.warps_per_block * WarpTeam::width), arguments,
                                    shape_.warps_per_block * sizeof(RebuildScratch), stream_.get());
    WARREN_TRY(gpu::check(launched, "rebuild_directory"));
    WARREN_TRY(end_.record(stream_));
    return stream_.wait();
}

Errc DirectoryRebuild::rebuild(const core::Store& store, const core::Credentials& caller,
                               Handle directory, u64 tree_blocks, BulkHost& host) {
    struct Between {
        DirectoryRebuild& rebuild;
        BulkHost& host;
        Errc bring_wanted() {
            const u64 wanted =
                std::min<u64>(rebuild.report().wanted_count, rebuild.room_.wanted.count());
            return bring_listed(rebuild.stream_, rebuild.room_.wanted.data(), wanted, host);
        }
        Errc grow(u64 tree_blocks) { return rebuild.make_room(tree_blocks + tree_blocks / 4); }
        Errc commit() { return host.commit(); }
        Errc rest() { return host.rest(); }
    } between{*this, host};
    const auto run_window = [&](const RebuildWindows& windows) {
        return run(store, caller, directory, tree_blocks, windows);
    };
    return pack_windows({}, report(), run_window, between);
}

}  // namespace warren::cuda_engine
