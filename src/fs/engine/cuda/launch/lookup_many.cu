// SPDX-License-Identifier: Apache-2.0
// A tile of lanes looks up one name after the other. A lookup waits about ten times for memory, so
// throughput depends on how many are in flight: the kernel uses few registers and many teams.
//
// Invariant: see fs/engine/cuda/launch/lookup_many.hpp.
#include "fs/engine/cuda/launch/lookup_many.hpp"

#include <algorithm>

#include "fs/core/fast_lookup.hpp"
#include "fs/ring/reply_code.hpp"
#include "gpu/failure.hpp"
#include "team/warp_team.hpp"

namespace warren::cuda_engine {
namespace {

constexpr u32 threads = 256;  // of a block

/// Writes the attributes in `image` to `to`: each lane writes one word, which it gets by a shuffle
/// from the lane that has read it.
__device__ void write_attributes(const core::InodeImage<WarpTeam>& image, Attributes& to) {
    static_assert(sizeof(Attributes) == 24 * sizeof(u32) && offsetof(Attributes, mode) == 16 &&
                  offsetof(Attributes, size) == 40);
    const u32 lane = threadIdx.x % 32;
    // Words 3 and 9 are padding; the others are in the order of a completion (ring/reply_code.hpp).
    const u32 word = lane < 4 ? 4 : lane < 10 ? lane + 1 : lane;
    const u32 source = ring::attribute_source(word < ring::attribute_words_end ? word : 4);
    const core::WordPair& own = image.items.own(0);
    const u32 parts[4] = {static_cast<u32>(own.low), static_cast<u32>(own.low >> 32),
                          static_cast<u32>(own.high), static_cast<u32>(own.high >> 32)};
    u32 value = 0;
    for (u32 part = 0; part < 4; ++part) {
        const u32 theirs = __shfl_sync(~0u, parts[part], static_cast<int>(source / 4));
        if (source % 4 == part) value = theirs;
    }
    if (lane == 0) value = static_cast<u32>(image.inode.number);
    if (lane == 1) value = static_cast<u32>(image.inode.number >> 32);
    if (lane < 24 && lane != 3 && lane != 9) reinterpret_cast<u32*>(&to)[lane] = value;
}
template <u32 lanes>
__device__ void write_attributes(const core::InodeImage<TileTeam<lanes>>& image, Attributes& to) {
    const TileTeam<lanes> team;
    const Attributes found = core::attributes_in(team, image);
    if (team.is_leader()) to = found;
}

/// Looks up one name; Errc::retry if that is not possible on the fast path.
template <class Team>
__device__ Errc look_up(const Team& team, const core::Store& store, const core::Credentials& caller,
                        const ops::BatchOperand& operand, const u64* names, Attributes& to) {
    core::FastEntry<Team> seen;
    if (!core::fast_lookup(team, store, caller, {operand.directory(), operand.generation},
                           reinterpret_cast<const char*>(names + operand.name), operand.length(),
                           core::may_execute, seen)) {
        return Errc::retry;
    }
    if (!seen.entry.exists) return Errc::no_entry;
    write_attributes(seen.inode, to);
    return core::is_unchanged(team, store, seen.inode.inode.seen) ? Errc::ok : Errc::retry;
}

template <class Team>
__global__ void __launch_bounds__(threads, 4)
    look_up_operands(const __grid_constant__ core::Store store,
                     const __grid_constant__ core::Credentials caller,
                     const ops::BatchOperand* operands, const u64* names, u32 count,
                     Attributes* attributes, Errc* codes) {
    const u32 number = (blockIdx.x * blockDim.x + threadIdx.x) / Team::width;
    const u32 teams = gridDim.x * blockDim.x / Team::width;
    const Team team{number};
    for (u32 i = number; i < count; i += teams) {
        const ops::BatchOperand operand = operands[i];
        const Errc code = look_up(team, store, caller, operand, names, attributes[i]);
        if (team.is_leader()) codes[i] = code;
    }
}

template <class Team>
Errc launch(const core::Store& store, const core::Credentials& caller,
            const ops::BatchOperand* operands, const u64* names, u32 count, Attributes* attributes,
            Errc* codes, cudaStream_t stream, const LookupShape& shape) {
    int device = 0;
    int processors = 0;
    const bool known =
        cudaGetDevice(&device) == cudaSuccess &&
        cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) == cudaSuccess;
    if (!known) return Errc::io;
    const u32 wanted = (count + threads / Team::width - 1) / (threads / Team::width);
    const u32 blocks =
        std::min(wanted, static_cast<u32>(processors) * shape.blocks_per_multiprocessor);
    if (blocks == 0) return Errc::ok;
    look_up_operands<Team>
        <<<blocks, threads, 0, stream>>>(store, caller, operands, names, count, attributes, codes);
    return gpu::check(cudaGetLastError(), "looking names up");
}

}  // namespace

Errc launch_lookups(const core::Store& store, const core::Credentials& caller,
                    const ops::BatchOperand* operands, const u64* names, u32 count,
                    Attributes* attributes, Errc* codes, cudaStream_t stream,
                    const LookupShape& shape) {
    const auto start = [&](auto launcher) {
        return launcher(store, caller, operands, names, count, attributes, codes, stream, shape);
    };
    switch (shape.lanes) {
        case 4:
            return start(launch<TileTeam<4>>);
        case 8:
            return start(launch<TileTeam<8>>);
        case 16:
            return start(launch<TileTeam<16>>);
        case 32:
            return start(launch<WarpTeam>);
        default:
            return Errc::invalid;
    }
}

}  // namespace warren::cuda_engine
