// SPDX-License-Identifier: Apache-2.0
// The operations of the volume as a warp: the same templates that the CPU engine runs, instantiated
// once for WarpTeam. The kernel lets one warp run one command on a Store in device memory until it
// has an answer or needs something from the host (a block, a commit), which it says in its verdict.
//
// Each verb is a function of its own, not inlined: the compiler's time grows faster than a
// function does, and so does the stack that a kernel takes for all of its lanes.
#include "fs/engine/cuda/operations.hpp"

#include "fs/ops/change_structure.hpp"
#include "fs/ops/create.hpp"
#include "fs/ops/inode_frame.hpp"
#include "fs/ops/reclaim.hpp"
#include "fs/ops/rename.hpp"
#include "fs/ops/set_attributes.hpp"
#include "fs/ops/truncate.hpp"
#include "team/warp_team.hpp"

namespace warren::cuda_engine {
namespace {

using WarpOperation = core::Operation<WarpTeam>;

__device__ Errc code_of(Errc code) {
    return code;
}
template <class T>
__device__ Errc code_of(const Result<T>& result) {
    return result.code();
}

constexpr u32 attempts_max = 1u << 12;  // then the host gives the command again

/// Makes room for the warps that this one lost to: a little longer each time, and not as long as
/// its neighbours, up to 16 microseconds.
__device__ void back_off(const WarpTeam& team, u32 attempt) {
    const u32 doublings = attempt < 8 ? attempt : 8;
    __nanosleep((32u << doublings) + (team.worker * 40503u & 0xffff) * (1u << doublings) / 2048);
    team.sync();
}

/// Serves a wish for another structure in at most `attempts` steps; how the last one ended.
__device__ __noinline__ Verdict serve_structure(const WarpTeam& team, const core::Store& store,
                                                const Verdict& wish, u32 attempts) {
    Verdict verdict{Errc::retry, 0, 0, 0, {}};
    for (u32 attempt = 0; attempt < attempts && verdict.code == Errc::retry; ++attempt) {
        if (attempt > 0) back_off(team, attempt);
        WarpOperation op(team, store);
        op.may_use_reserve = true;
        verdict.code = ops::change_structure(op, wish.code, wish.inode, wish.key);
        verdict.place = op.needed_place;
        core::finish(op);
    }
    return verdict;
}

/// Runs `body(op)` until it has an answer that the warp cannot get past by itself.
template <class Body>
__device__ Verdict drive(const WarpTeam& team, const core::Store& store, const Body& body) {
    u32 retries = 0;
    for (u32 attempt = 0; attempt < attempts_max; ++attempt) {
        WarpOperation op(team, store);
        const Errc code = code_of(body(op));
        const Verdict verdict{code, op.needed_place, op.needed_inode, op.needed_key, {}};
        core::finish(op);
        if (code != Errc::retry && code != Errc::need_split) return verdict;
        if (code == Errc::need_split) {
            // One step, then look again: of many warps that find a leaf full one splits it, and
            // the others must not split the halves.
            const Verdict served = serve_structure(team, store, verdict, 1);
            if (served.code == Errc::ok) continue;
            if (served.code != Errc::retry) return served;
        }
        back_off(team, retries++);
    }
    return {Errc::retry, 0, 0, 0, {}};
}

/// One command with what it works on.
struct Task {
    WarpTeam team;
    const core::Store& store;
    const Command& command;
    Attributes& result;

    __device__ core::Credentials caller() const {
        return {command.user, command.group, nullptr, 0, 022, false};
    }
};

__device__ __noinline__ Verdict lookup(const Task& task) {
    const Command& command = task.command;
    return drive(task.team, task.store, [&](WarpOperation& op) {
        const auto found =
            ops::lookup(op, task.caller(), command.directory, command.name, command.length, 0);
        if (found) task.result = *found;
        return found.code();
    });
}

__device__ __noinline__ Verdict create(const Task& task) {
    const Command& command = task.command;
    return drive(task.team, task.store, [&](WarpOperation& op) {
        ops::CreateArguments arguments;
        arguments.mode = command.mode;
        arguments.now = command.now;
        const auto made = ops::create(op, task.caller(), command.directory, command.name,
                                      command.length, arguments);
        if (made) task.result = *made;
        return made.code();
    });
}

/// Tidies up after a removal: an empty leaf goes if that is possible now.
__device__ Verdict settle(const Task& task, Verdict verdict, const ops::Removed& removed) {
    if (verdict.code != Errc::ok) return verdict;
    verdict.orphan = removed.reclaim;
    if (removed.prune_inode != 0) {
        serve_structure(task.team, task.store,
                        {Errc::need_prune, 0, removed.prune_inode, removed.prune_key, {}},
                        attempts_max);
    }
    return verdict;
}

__device__ __noinline__ Verdict unlink(const Task& task) {
    const Command& command = task.command;
    ops::Removed left;
    const Verdict verdict = drive(task.team, task.store, [&](WarpOperation& op) {
        const auto removed =
            ops::unlink(op, task.caller(), command.directory, command.name, command.length,
                        command.verb == Verb::remove_directory, command.now);
        if (removed) left = *removed;
        return removed.code();
    });
    return settle(task, verdict, left);
}

__device__ __noinline__ Verdict rename(const Task& task) {
    const Command& command = task.command;
    ops::Removed left;
    const Verdict verdict = drive(task.team, task.store, [&](WarpOperation& op) {
        const auto removed = ops::rename(op, task.caller(), command.directory, command.name,
                                         command.length, command.target, command.new_name,
                                         command.new_length, Rename::replace, command.now);
        if (removed) left = *removed;
        return removed.code();
    });
    return settle(task, verdict, left);
}

__device__ __noinline__ Verdict link(const Task& task) {
    const Command& command = task.command;
    return drive(task.team, task.store, [&](WarpOperation& op) {
        const auto linked = ops::link(op, task.caller(), command.target, command.directory,
                                      command.name, command.length, 0, command.now);
        if (linked) task.result = *linked;
        return linked.code();
    });
}

__device__ __noinline__ Verdict set_attributes(const Task& task) {
    const Command& command = task.command;
    return drive(task.team, task.store, [&](WarpOperation& op) {
        const auto changed =
            ops::set_attributes(op, task.caller(), command.directory, command.change, command.now);
        if (changed) task.result = *changed;
        return changed.code();
    });
}

__device__ __noinline__ Verdict read_leaf(const Task& task) {
    const Command& command = task.command;
    u64 next = 0;
    Verdict verdict = drive(task.team, task.store, [&](WarpOperation& op) {
        const auto read = ops::read_leaf(op, command.directory, command.key, *command.leaf);
        if (read) next = *read;
        return read.code();
    });
    if (verdict.code == Errc::ok) verdict.key = next;
    return verdict;
}

__device__ __noinline__ Verdict truncate(const Task& task) {
    const Command& command = task.command;
    for (;;) {
        bool is_done = false;
        const Verdict verdict = drive(task.team, task.store, [&](WarpOperation& op) {
            const auto cut =
                ops::truncate(op, command.directory, command.change.new_size, command.now,
                              [](const auto& /*piece*/) { return Errc::not_supported; });
            if (cut) is_done = *cut;
            return cut.code();
        });
        if (verdict.code != Errc::ok || is_done) return verdict;
    }
}

__device__ __noinline__ Verdict reclaim(const Task& task) {
    const Command& command = task.command;
    for (;;) {
        ops::Reclaimed step;
        const Verdict verdict = drive(task.team, task.store, [&](WarpOperation& op) {
            const auto taken = ops::reclaim_step(op, command.directory, command.now);
            if (taken) step = *taken;
            return taken.code();
        });
        if (verdict.code != Errc::ok || step.is_done) return settle(task, verdict, step.removed);
    }
}

__device__ __noinline__ Verdict add_inode_frame(const Task& task) {
    const core::Store& store = task.store;
    const bool has_room = once(task.team, [&] {
        const u64* room = core::room_of(store, core::FrameKind::inodes);
        return core::find_bit_up(room, 0, store.frame_count) != store.frame_count;
    });
    if (has_room) return {Errc::ok, 0, 0, 0, {}};
    const Result<u64> frame =
        once(task.team, [&] { return core::claim_frame(store, core::FrameKind::inodes); });
    if (!frame) return {frame.code(), 0, 0, 0, {}};
    const Verdict started = drive(
        task.team, store, [&](WarpOperation& op) { return ops::start_inode_frame(op, *frame); });
    if (started.code != Errc::ok) {
        once(task.team, [&] { core::unclaim_frame(store, *frame); });
    }
    return started;
}

__device__ Verdict execute(const Task& task) {
    switch (task.command.verb) {
        case Verb::lookup:
            return lookup(task);
        case Verb::create:
            return create(task);
        case Verb::unlink:
        case Verb::remove_directory:
            return unlink(task);
        case Verb::rename:
            return rename(task);
        case Verb::link:
            return link(task);
        case Verb::set_attributes:
            return set_attributes(task);
        case Verb::read_leaf:
            return read_leaf(task);
        case Verb::truncate:
            return truncate(task);
        case Verb::reclaim:
            return reclaim(task);
        case Verb::add_inode_frame:
            return add_inode_frame(task);
    }
    return {Errc::not_supported, 0, 0, 0, {}};
}

__global__ void execute_commands(core::Store store, const Command* commands, u32 count,
                                 Verdict* verdicts, Attributes* results) {
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / WarpTeam::width;
    const u32 warps = gridDim.x * blockDim.x / WarpTeam::width;
    const WarpTeam team{warp};
    for (u32 i = warp; i < count; i += warps) {
        Attributes result;
        const Verdict verdict = execute({team, store, commands[i], result});
        once(team, [&] {
            verdicts[i] = verdict;
            results[i] = result;
        });
    }
}

}  // namespace

Result<KernelShape> commands_kernel_shape(u32 warps_per_block) {
    cudaFuncAttributes attributes{};
    KernelShape shape{};
    const int threads = static_cast<int>(warps_per_block * WarpTeam::width);
    const bool known =
        cudaFuncGetAttributes(&attributes, execute_commands) == cudaSuccess &&
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&shape.blocks_per_multiprocessor,
                                                      execute_commands, threads, 0) == cudaSuccess;
    if (!known) return Errc::io;
    shape.registers = attributes.numRegs;
    shape.stack_bytes = attributes.localSizeBytes;
    return shape;
}

Errc run_commands(const core::Store& store, const Command* commands, u32 count, Verdict* verdicts,
                  Attributes* results, u32 blocks, u32 warps_per_block) {
    execute_commands<<<blocks, warps_per_block * WarpTeam::width>>>(store, commands, count,
                                                                    verdicts, results);
    const bool ran = cudaGetLastError() == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess;
    return ran ? Errc::ok : Errc::io;
}

}  // namespace warren::cuda_engine
