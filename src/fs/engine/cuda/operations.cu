// SPDX-License-Identifier: Apache-2.0
// The operations of the volume as a warp: the same templates that the CPU engine runs, instantiated
// once for WarpTeam. Each kernel lets one warp run one operation on a Store in device memory until it
// has an answer or needs something from the host (a block, a commit), which it says in its verdict.
#include "fs/engine/cuda/operations.hpp"

#include "fs/core/directory.hpp"
#include "fs/ops/contents.hpp"
#include "fs/ops/create.hpp"
#include "fs/ops/attributes.hpp"
#include "fs/ops/inode_frame.hpp"
#include "fs/ops/read_link.hpp"
#include "fs/ops/rebuild.hpp"
#include "fs/ops/reclaim.hpp"
#include "fs/ops/references.hpp"
#include "fs/ops/remove_tree.hpp"
#include "fs/ops/rename.hpp"
#include "fs/ops/set_attributes.hpp"
#include "team/warp_team.hpp"

namespace warren::cuda_engine {
namespace {

using WarpOperation = core::Operation<WarpTeam>;

__device__ Errc code_of(Errc code) { return code; }
template <class T>
__device__ Errc code_of(const Result<T>& result) {
    return result.code();
}

constexpr u32 attempts_max = 1u << 20;  // a warp gives up rather than spin for ever

/// Serves what a warp can serve by itself: another try, a change of a tree's structure.
__device__ Errc change_structure(WarpOperation& op, Errc what, u64 number, u64 key) {
    op.may_use_reserve = true;
    const Result<core::InodeRef> inode = core::find_inode(op, number);
    if (!inode) return inode.code() == Errc::stale ? Errc::ok : inode.code();
    const u32 mode = load(op.team, inode->at->mode);
    if ((mode & format::type_mask) != format::type_directory) {
        return what == Errc::need_split ? core::make_extent_room(op, number, key) : Errc::ok;
    }
    return what == Errc::need_split ? core::make_room(op, *inode, core::DirectoryLeafType{}, key)
                                    : core::prune(op, *inode, core::DirectoryLeafType{}, key);
}

/// Runs `body(op)` until it has an answer that the warp cannot get past by itself.
template <class Body>
__device__ Verdict drive(const core::Store& store, const Body& body) {
    const WarpTeam team{blockIdx.x * blockDim.x / WarpTeam::width + threadIdx.x / WarpTeam::width};
    for (u32 attempt = 0; attempt < attempts_max; ++attempt) {
        WarpOperation op(team, store);
        const Errc code = code_of(body(op));
        const Verdict verdict{code, op.needed_place, op.needed_inode, op.needed_key};
        core::finish(op);
        if (code == Errc::retry) continue;
        if (code != Errc::need_split && code != Errc::need_prune) return verdict;
        for (Errc changed = Errc::retry; changed == Errc::retry;) {
            WarpOperation inner(team, store);
            changed = change_structure(inner, code, verdict.inode, verdict.key);
            const Verdict wish{changed, inner.needed_place, 0, 0};
            core::finish(inner);
            if (!is_final(changed) && changed != Errc::retry) return wish;
        }
    }
    return {Errc::busy, 0, 0, 0};
}

/// Runs one command.
__device__ Verdict execute(const core::Store& store, const Command& command, Attributes& result) {
    const core::Credentials caller{command.user, command.group, nullptr, 0, 022, false};
    return drive(store, [&](WarpOperation& op) -> Errc {
        switch (command.verb) {
            case Verb::lookup: {
                const auto found =
                    ops::lookup(op, caller, command.directory, command.name, command.length, 0);
                if (found) result = *found;
                return found.code();
            }
            case Verb::create: {
                ops::CreateArguments arguments;
                arguments.mode = command.mode;
                arguments.now = command.now;
                const auto made = ops::create(op, caller, command.directory, command.name,
                                              command.length, arguments);
                if (made) result = *made;
                return made.code();
            }
            case Verb::unlink:
            case Verb::remove_directory:
                return ops::unlink(op, caller, command.directory, command.name, command.length,
                                   command.verb == Verb::remove_directory, command.now)
                    .code();
            case Verb::rename:
                return ops::rename(op, caller, command.directory, command.name, command.length,
                                   command.target, command.new_name, command.new_length,
                                   Rename::replace, command.now)
                    .code();
            case Verb::link:
                return ops::link(op, caller, command.target, command.directory, command.name,
                                 command.length, 0, command.now)
                    .code();
            case Verb::add_inode_frame: {
                const Result<u64> frame = once(op.team, [&] {
                    return core::claim_frame(store, core::FrameKind::inodes);
                });
                if (!frame) return frame.code();
                const Errc started = ops::start_inode_frame(op, *frame);
                if (started == Errc::ok) return Errc::ok;
                once(op.team, [&] { core::unclaim_frame(store, *frame); });
                return started;
            }
        }
        return Errc::not_supported;
    });
}

__global__ void execute_commands(core::Store store, const Command* commands, u32 count,
                                 Verdict* verdicts, Attributes* results) {
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / WarpTeam::width;
    const u32 warps = gridDim.x * blockDim.x / WarpTeam::width;
    for (u32 i = warp; i < count; i += warps) {
        Attributes result;
        const Verdict verdict = execute(store, commands[i], result);
        if (threadIdx.x % WarpTeam::width != 0) continue;
        verdicts[i] = verdict;
        results[i] = result;
    }
}

}  // namespace

Errc run_commands(const core::Store& store, const Command* commands, u32 count, Verdict* verdicts,
                  Attributes* results, u32 blocks, u32 warps_per_block) {
    execute_commands<<<blocks, warps_per_block * WarpTeam::width>>>(store, commands, count,
                                                                    verdicts, results);
    const bool ran = cudaGetLastError() == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess;
    return ran ? Errc::ok : Errc::io;
}

}  // namespace warren::cuda_engine
