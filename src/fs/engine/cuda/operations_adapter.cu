// SPDX-License-Identifier: Apache-2.0
// See fs/engine/cuda/operations_adapter.hpp.
//
// Invariant: what is made here of a command is one or several ops::Command; none is carried out
// here.
#include "fs/engine/cuda/operations_adapter.hpp"

#include "fs/engine/cuda/operations_warp.hpp"

namespace warren::cuda_engine {
namespace {

__device__ ops::Verb verb_of(Verb verb) {
    switch (verb) {
        case Verb::lookup:
            return ops::Verb::lookup;
        case Verb::create:
            return ops::Verb::create;
        case Verb::unlink:
            return ops::Verb::unlink;
        case Verb::remove_directory:
            return ops::Verb::remove_directory;
        case Verb::rename:
            return ops::Verb::rename;
        case Verb::link:
            return ops::Verb::link;
        case Verb::set_attributes:
            return ops::Verb::set_attributes;
        case Verb::read_leaf:
            return ops::Verb::read_leaf;
        case Verb::truncate:
            return ops::Verb::truncate;
        case Verb::reclaim:
            return ops::Verb::reclaim_step;
        default:
            return ops::Verb::claim_inode_frame;
    }
}

__device__ ops::Command command_of(const Command& old) {
    ops::Command command;
    command.verb = verb_of(old.verb);
    command.caller = {old.user, old.group, nullptr, 0, 022, false};
    command.handle = old.verb == Verb::link ? old.target : old.directory;
    command.target = old.verb == Verb::link ? old.directory : old.target;
    command.name = old.name;
    command.new_name = old.new_name;
    command.name_length = old.length;
    command.new_name_length = old.new_length;
    command.mode = old.mode;
    command.from = old.verb == Verb::truncate ? old.change.new_size : old.key;
    command.now = old.now;
    command.change = old.change;
    command.buffer = old.leaf;
    command.buffer_bytes = sizeof(format::DirectoryLeaf);
    return command;
}

__device__ void run_adapted(const WarpTeam& team, const core::Store& store, ops::Command& command,
                            ops::Reply& reply) {
    using ops::Verb;
    const bool has_steps = command.verb == Verb::truncate || command.verb == Verb::reclaim_step;
    do {
        run_command(team, store, command, reply);
    } while (has_steps && reply.code == Errc::ok && reply.value == 0);
    if (command.verb != Verb::claim_inode_frame || reply.code != Errc::ok || reply.value == 0) {
        return;
    }
    command.from = reply.value;
    command.verb = Verb::start_inode_frame;
    run_command(team, store, command, reply);
    if (reply.code == Errc::ok) return;
    const Errc code = reply.code;
    command.verb = Verb::unclaim_frame;
    run_command(team, store, command, reply);
    reply.code = code;
}

__global__ void __launch_bounds__(256, 1)
    execute_adapted(core::Store store, const Command* commands, u32 count, Verdict* verdicts,
                    Attributes* results) {
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / WarpTeam::width;
    const u32 warps = gridDim.x * blockDim.x / WarpTeam::width;
    const WarpTeam team{warp};
    for (u32 i = warp; i < count; i += warps) {
        ops::Command command = command_of(commands[i]);
        ops::Reply reply;
        run_adapted(team, store, command, reply);
        once(team, [&] {
            verdicts[i] = {reply.code, reply.needed_place, reply.needed_inode, reply.value,
                           reply.removed.reclaim};
            results[i] = reply.attributes;
        });
    }
}

}  // namespace

Errc run_commands(const core::Store& store, const Command* commands, u32 count, Verdict* verdicts,
                  Attributes* results, u32 blocks, u32 warps_per_block) {
    execute_adapted<<<blocks, warps_per_block * WarpTeam::width>>>(store, commands, count, verdicts,
                                                                   results);
    const bool ran = cudaGetLastError() == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess;
    return ran ? Errc::ok : Errc::io;
}

}  // namespace warren::cuda_engine
