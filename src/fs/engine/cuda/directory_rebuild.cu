// SPDX-License-Identifier: Apache-2.0
// The kernel of a rebuild and the host that starts it. Its workers wait for each other, so all of
// them must be on the device at once: a cooperative launch sees to that.
#include "fs/engine/cuda/directory_rebuild.hpp"

#include <algorithm>

#include "fs/engine/cuda/directory_rebuild_worker.hpp"
#include "gpu/failure.hpp"
#include "team/warp_team.hpp"

namespace warren::cuda_engine {
namespace {

constexpr u64 wanted_count = u64{1} << 16;
constexpr u32 retries_max = 10'000;

__global__ void __launch_bounds__(256, 2)
    rebuild_directory(core::Store store, RebuildRef ref, core::Credentials caller,
                      Handle directory) {
    extern __shared__ RebuildScratch scratches[];
    const WarpTeam team{(blockIdx.x * blockDim.x + threadIdx.x) / WarpTeam::width};
    RebuildWorker<WarpTeam> worker(team, store, ref, scratches[threadIdx.x / WarpTeam::width]);
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
    WARREN_TRY(state_.allocate(1));
    WARREN_TRY(wanted_.allocate(wanted_count));
    WARREN_TRY(groups_.allocate(groups_max));
    WARREN_TRY(report_.allocate(1));
    WARREN_TRY(stream_.fill(state_.data(), 0, state_.bytes()));
    return make_room(shape.tree_blocks);
}

/// Takes no more blocks than the device can hold at once.
Errc DirectoryRebuild::fit_device(u32 shared_bytes) {
    int device = 0;
    int multiprocessors = 0;
    int blocks_each = 0;
    WARREN_TRY(gpu::check(cudaGetDevice(&device), "cudaGetDevice"));
    WARREN_TRY(
        gpu::check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
                   "cudaDeviceGetAttribute"));
    WARREN_TRY(
        gpu::check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                       &blocks_each, rebuild_directory,
                       static_cast<int>(shape_.warps_per_block * WarpTeam::width), shared_bytes),
                   "cudaOccupancyMaxActiveBlocksPerMultiprocessor"));
    const u32 fitting = static_cast<u32>(multiprocessors * blocks_each);
    if (fitting == 0) return Errc::not_supported;
    shape_.blocks = std::min(shape_.blocks, fitting);
    return Errc::ok;
}

/// Room for trees of so many blocks.
Errc DirectoryRebuild::make_room(u64 tree_blocks) {
    tree_blocks_ = tree_blocks;
    WARREN_TRY(nodes_.reserve(tree_blocks));
    WARREN_TRY(node_sizes_.reserve(tree_blocks));
    WARREN_TRY(leaves_.reserve(tree_blocks));
    WARREN_TRY(leaf_keys_.reserve(tree_blocks));
    WARREN_TRY(leaf_sizes_.reserve(tree_blocks));
    WARREN_TRY(chunks_.reserve(tree_blocks / chunk_leaves + 1));
    WARREN_TRY(keys_.reserve(rebuild_entries(tree_blocks)));
    WARREN_TRY(targets_.reserve(rebuild_entries(tree_blocks)));
    WARREN_TRY(name_at_.reserve(rebuild_entries(tree_blocks) + 1));
    WARREN_TRY(names_.reserve(rebuild_words(tree_blocks)));
    WARREN_TRY(cuts_.reserve(rebuild_segments(tree_blocks) * segment_entries));
    return segment_cuts_.reserve(rebuild_segments(tree_blocks));
}

/// What the workers of so many blocks of threads share.
RebuildRef DirectoryRebuild::ref(u32 blocks) const {
    RebuildRef ref{};
    ref.state = state_.data();
    ref.nodes = nodes_.data();
    ref.node_sizes = node_sizes_.data();
    ref.leaves = leaves_.data();
    ref.leaf_keys = leaf_keys_.data();
    ref.leaf_sizes = leaf_sizes_.data();
    ref.chunks = chunks_.data();
    ref.keys = keys_.data();
    ref.targets = targets_.data();
    ref.name_at = name_at_.data();
    ref.names = names_.data();
    ref.cuts = cuts_.data();
    ref.segment_cuts = segment_cuts_.data();
    ref.wanted = wanted_.data();
    ref.block_max = tree_blocks_;
    ref.wanted_max = wanted_count;
    ref.report = report_.data();
    ref.workers = u64{blocks} * shape_.warps_per_block;
    return ref;
}

float DirectoryRebuild::kernel_ms() const {
    const Result<float> taken = end_.milliseconds_since(begin_);
    return taken ? *taken : 0;
}

Errc DirectoryRebuild::run(const core::Store& store, const core::Credentials& caller,
                           Handle directory, u32 blocks, const RebuildWindows& windows) {
    RebuildRef shared = ref(blocks);
    shared.from_key = windows.from_key;
    shared.window_max = windows.leaves_max;
    core::Store device_store = store;
    core::Credentials who = caller;
    who.groups = groups_.data();
    void* arguments[] = {&device_store, &shared, &who, &directory};
    WARREN_TRY(begin_.record(stream_));
    const cudaError_t launched =
        cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(rebuild_directory), dim3(blocks),
                                    dim3(shape_.warps_per_block * WarpTeam::width), arguments,
                                    shape_.warps_per_block * sizeof(RebuildScratch), stream_.get());
    WARREN_TRY(gpu::check(launched, "rebuild_directory"));
    WARREN_TRY(end_.record(stream_));
    return stream_.wait();
}

Errc DirectoryRebuild::bring_wanted(RebuildHost& host) {
    const u64 count = std::min<u64>(report_.data()->wanted_count, wanted_count);
    std::vector<u64> places(count);
    WARREN_TRY(stream_.copy(places.data(), wanted_.data(), count * sizeof(u64)));
    WARREN_TRY(stream_.wait());
    return host.bring(places);
}

Errc DirectoryRebuild::rebuild(const core::Store& store, const core::Credentials& caller,
                               Handle directory, u64 tree_blocks, RebuildHost& host) {
    // Workers wait for each other ten times, and the more there are the longer.
    const u64 wanted = (tree_blocks + shape_.warps_per_block - 1) / shape_.warps_per_block;
    const u32 blocks = static_cast<u32>(std::clamp<u64>(wanted, 1, shape_.blocks));
    if (caller.group_count > groups_max) return Errc::invalid;
    const u64 group_bytes = u64{caller.group_count} * sizeof(u32);
    if (group_bytes > 0) WARREN_TRY(stream_.copy(groups_.data(), caller.groups, group_bytes));
    u32 damaged = 0;
    RebuildWindows windows;
    for (u32 retry = 0; retry < retries_max; ++retry) {
        WARREN_TRY(run(store, caller, directory, blocks, windows));
        const RebuildState& report = *report_.data();
        Errc code = Errc::ok;
        for (const u32 one : report.codes)
            code = code == Errc::ok ? static_cast<Errc>(one) : code;
        code = windows.take(report, code);
        switch (code) {
            case Errc::retry:
                WARREN_TRY(host.rest());
                break;
            case Errc::need_block:
                WARREN_TRY(bring_wanted(host));
                break;
            case Errc::need_commit:
                WARREN_TRY(host.commit());
                break;
            case Errc::need_space:
                WARREN_TRY(make_room(report.blocks_wanted + report.blocks_wanted / 4));
                break;
            case Errc::corrupt:
                // What was found may have changed hands: believed if it stays so.
                if (++damaged == 4) return code;
                WARREN_TRY(host.rest());
                break;
            default:
                return code;
        }
    }
    return Errc::busy;
}

}  // namespace warren::cuda_engine
