// SPDX-License-Identifier: Apache-2.0
// A tile of lanes looks up one name after the other. A lookup waits about ten times for memory, so
// throughput depends on how many are in flight: the kernel uses few registers and many teams.
//
// Invariant: see fs/engine/cuda/launch/lookup_many.hpp.
#include "fs/engine/cuda/launch/lookup_many.hpp"

#include <algorithm>

#include "fs/core/fast_lookup.hpp"
#include "gpu/device.hpp"
#include "gpu/failure.hpp"
#include "team/warp_team.hpp"

namespace warren::cuda_engine {
namespace {

// 562 million names a second in one directory; with 4, 16 and 32 lanes 508, 459 and 419.
using LookupTeam = TileTeam<8>;

constexpr u32 threads = 256;  // of a block
constexpr u32 blocks_per_multiprocessor = 4;

/// Looks up one name; Errc::retry if that is not possible on the fast path.
__device__ Errc look_up(const LookupTeam& team, const core::Store& store,
                        const core::Credentials& caller, const ops::BatchOperand& operand,
                        const u64* names, Attributes& to) {
    core::FastEntry<LookupTeam> seen;
    if (!core::fast_lookup(team, store, caller, {operand.directory(), operand.generation},
                           reinterpret_cast<const char*>(names + operand.name), operand.length(),
                           core::may_execute, seen)) {
        return Errc::retry;
    }
    if (!seen.entry.exists) return Errc::no_entry;
    const Attributes found = core::attributes_in(team, seen.inode);
    if (team.is_leader()) to = found;
    return core::is_unchanged(team, store, seen.inode.inode.seen) ? Errc::ok : Errc::retry;
}

__global__ void __launch_bounds__(threads, blocks_per_multiprocessor)
    look_up_operands(const __grid_constant__ core::Store store,
                     const __grid_constant__ core::Credentials caller,
                     const ops::BatchOperand* operands, const u64* names, u32 count,
                     Attributes* attributes, Errc* codes) {
    const u32 number = (blockIdx.x * blockDim.x + threadIdx.x) / LookupTeam::width;
    const u32 teams = gridDim.x * blockDim.x / LookupTeam::width;
    const LookupTeam team{number};
    for (u32 i = number; i < count; i += teams) {
        const ops::BatchOperand operand = operands[i];
        const Errc code = look_up(team, store, caller, operand, names, attributes[i]);
        if (team.is_leader()) codes[i] = code;
    }
}

}  // namespace

Errc launch_lookups(const core::Store& store, const core::Credentials& caller,
                    const ops::BatchOperand* operands, const u64* names, u32 count,
                    Attributes* attributes, Errc* codes, cudaStream_t stream) {
    WARREN_LET(multiprocessors, gpu::multiprocessors());
    constexpr u32 names_per_block = threads / LookupTeam::width;
    const u32 wanted = (count + names_per_block - 1) / names_per_block;
    const u32 blocks = std::min(wanted, *multiprocessors * blocks_per_multiprocessor);
    if (blocks == 0) return Errc::ok;
    look_up_operands<<<blocks, threads, 0, stream>>>(store, caller, operands, names, count,
                                                     attributes, codes);
    return gpu::check(cudaGetLastError(), "looking names up");
}

}  // namespace warren::cuda_engine
