// SPDX-License-Identifier: Apache-2.0
// Runs a command by a warp: attempts it until there is a result, or a retry reason that only the
// host can serve. Warps that conflict back off, a little longer after each attempt.
//
// Invariant: the loop ends. After attempts_max attempts the command is returned with Errc::retry.
#include "fs/engine/cuda/launch/operations.hpp"

#include "fs/core/allocator.hpp"
#include "fs/engine/cuda/launch/operations_warp.hpp"
#include "fs/ops/execute.hpp"
#include "gpu/failure.hpp"

namespace warren::cuda_engine {
namespace {

constexpr u32 attempts_max = 1u << 12;  // then the host sends the command again

/// Pauses after a lost race: longer after each attempt, for a different time than other warps, up
/// to 16 microseconds.
__device__ void back_off(const WarpTeam& team, u32 attempt) {
    const u32 doublings = attempt < 8 ? attempt : 8;
    __nanosleep((32u << doublings) + (team.worker * 40503u & 0xffff) * (1u << doublings) / 2048);
    team.sync();
}

/// ops::execute(), whose groups of verbs are functions that the device linker resolves.
__device__ __noinline__ void attempt(const WarpTeam& team, const core::Store& store,
                                     const ops::Command& command, ops::Reply& reply) {
    WarpOperation op(team, store);
    op.commits_wait = true;  // a commit waits until the engine is idle
    op.may_use_reserve = command.may_use_reserve;
    reply.has_piece = false;
    Errc code = Errc::not_supported;
    if (command.verb < ops::Verb::get_attributes) {
        code = attempt_names(op, command, reply);
    } else if (command.verb < ops::Verb::map) {
        code = attempt_inodes(op, command, reply);
    } else if (command.verb < ops::Verb::reclaim_step) {
        code = attempt_contents(op, command, reply);
    } else {
        code = attempt_parts(op, command, reply);
    }
    ops::end_attempt(op, code, reply);
    core::finish(op);
}

/// Changes the structure of a tree, with at most `attempts` attempts; `reply` is that of the last.
__device__ __noinline__ void change_structure(const WarpTeam& team, const core::Store& store,
                                              Errc retry_reason, u64 inode, u64 key, u32 attempts,
                                              ops::Reply& reply) {
    ops::Command command;
    command.verb = ops::Verb::change_structure;
    command.may_use_reserve = reply.may_use_reserve;
    command.retry_reason = retry_reason;
    command.from = inode;
    command.length = key;
    reply.code = Errc::retry;
    for (u32 i = 0; i < attempts && reply.code == Errc::retry; ++i) {
        if (i > 0) back_off(team, i);
        attempt(team, store, command, reply);
    }
}

/// Removes a leaf that a removal has emptied. If that is impossible now, for example because the
/// journal is full, the reply still names the leaf, and the host removes it.
__device__ void settle(const WarpTeam& team, const core::Store& store, const ops::Command& command,
                       ops::Reply& reply) {
    if (reply.code != Errc::ok || reply.removed.prune_inode == 0) return;
    const bool removes =
        command.verb == ops::Verb::unlink || command.verb == ops::Verb::remove_directory ||
        command.verb == ops::Verb::rename || command.verb == ops::Verb::reclaim_step;
    if (!removes) return;
    const bool used_reserve = reply.may_use_reserve;
    reply.may_use_reserve = true;
    change_structure(team, store, Errc::need_prune, reply.removed.prune_inode,
                     reply.removed.prune_key, attempts_max, reply);
    if (reply.code == Errc::ok) reply.removed.prune_inode = 0;
    reply.code = Errc::ok;  // the removal itself has succeeded
    reply.may_use_reserve = used_reserve;
}

}  // namespace

__device__ __noinline__ void run_command(const WarpTeam& team, const core::Store& store,
                                         const ops::Command& command, ops::Reply& reply) {
    u32 retries = 0;
    for (u32 i = 0; i < attempts_max; ++i) {
        attempt(team, store, command, reply);
        const Errc code = reply.code;
        if (code == Errc::need_split || code == Errc::need_prune) {
            // A single attempt, then the command starts again: if many warps find a leaf full, one
            // splits it, and the others must not split the halves.
            change_structure(team, store, code, reply.needed_inode, reply.needed_key, 1, reply);
            if (reply.code == Errc::ok) continue;
            if (reply.code != Errc::retry) return;
        } else if (code != Errc::retry) {
            settle(team, store, command, reply);
            return;
        }
        back_off(team, retries++);
    }
    reply.code = Errc::retry;
}

namespace {

__global__ void __launch_bounds__(256, 1)
    execute_batch(const __grid_constant__ core::Store from, const ops::Command* commands, u32 count,
                  ops::Reply* replies) {
    __shared__ core::Store store;  // a copy, because each acquire empties the parameters' cache
    if (threadIdx.x == 0) store = from;
    __syncthreads();
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / WarpTeam::width;
    const u32 warps = gridDim.x * blockDim.x / WarpTeam::width;
    const WarpTeam team{warp};
    for (u32 i = warp; i < count; i += warps) {
        ops::Reply reply;
        run_command(team, store, commands[i], reply);
        once(team, [&] { replies[i] = reply; });
    }
}

}  // namespace

Errc launch_batch(const core::Store& store, const ops::Command* commands, ops::Reply* replies,
                  u32 count, u32 blocks, u32 warps_per_block, cudaStream_t stream) {
    execute_batch<<<blocks, warps_per_block * WarpTeam::width, 0, stream>>>(store, commands, count,
                                                                            replies);
    return gpu::check(cudaGetLastError(), "execute_batch");
}

}  // namespace warren::cuda_engine
