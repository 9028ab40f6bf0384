// SPDX-License-Identifier: Apache-2.0
// The kernels of a bulk step that removes a tree. Nearly always it is one: its second warp passes
// the freeze barrier while the first looks for the tree's root, the others wait at the queue, and
// the warp that leaves last ends it.
//
// Invariant: the freeze barrier is held from the beginning of a step until the report says that it
// is over.
#include "fs/engine/cuda/launch/removal_step.hpp"

#include "fs/engine/cuda/launch/removal_opening.cuh"
#include "fs/ops/change_structure.hpp"
#include "fs/ops/remove_tree.hpp"
#include "gpu/failure.hpp"
#include "team/warp_team.hpp"

namespace warren::cuda_engine {
namespace {

using WarpOperation = core::Operation<WarpTeam>;

constexpr u32 ended_alone_max = 4;  // directories that the last warp ends by itself
constexpr u64 lonely_tasks = 4;     // a chain's: one directory begins while those before it end
constexpr u32 lonely_max = 10;      // levels of a chain before a listing pays

/// What a part of the step asks for.
struct RetryReason {
    u64 place = 0;
    u64 inode = 0;
    u64 key = 0;
};

__device__ Errc code_of(Errc code) {
    return code;
}
template <class T>
__device__ Errc code_of(const Result<T>& result) {
    return result.code();
}

/// Runs a part of the step to its end or to a retry_reason.
template <class Body>
__device__ auto run_in_step(const WarpTeam& team, const core::Store& store,
                            RetryReason& retry_reason, const Body& body) {
    for (;;) {
        WarpOperation op(team, store);
        op.barrier_is_held = true;
        auto result = body(op);
        retry_reason = {op.needed_place, op.needed_inode, op.needed_key};
        core::finish(op);
        if (code_of(result) != Errc::retry) return result;
        once(team, [] { pause_briefly(); });
    }
}

/// Takes a freed directory's name out of the orphan directory, and the directory itself; if it
/// `prunes`, a leaf that got empty, too.
__device__ __noinline__ Errc end_root(const WarpTeam& team, const core::Store& given, u64 number,
                                      i64 now, bool prunes, RetryReason& retry_reason) {
    const core::Store& store = in_shared_memory(given);
    const auto ended = run_in_step(team, store, retry_reason, [&](WarpOperation& op) {
        return ops::end_emptied(op, number, now);
    });
    if (!ended || !prunes || ended->prune_inode == 0) return ended.code();
    // A leaf that cannot go now stays: it does no harm, and the next orphan has room there.
    RetryReason ignored;
    static_cast<void>(run_in_step(team, store, ignored, [&](WarpOperation& op) {
        return ops::change_structure(op, Errc::need_prune, ended->prune_inode, ended->prune_key);
    }));
    return Errc::ok;
}

/// Hangs a directory on the orphan directory. What is held becomes room for names there when no
/// other is left.
__device__ __noinline__ Errc adopt(const WarpTeam& team, const core::Store& given,
                                   core::HeldFrames& held, u64 number, i64 now,
                                   RetryReason& retry_reason) {
    const core::Store& store = in_shared_memory(given);
    for (bool has_used_all = false;;) {
        Errc code = run_in_step(team, store, retry_reason, [&](WarpOperation& op) {
            return ops::adopt_orphan(op, number, now);
        });
        if (code == Errc::need_split) {
            const u64 inode = retry_reason.inode;
            const u64 key = retry_reason.key;
            code = run_in_step(team, store, retry_reason, [&](WarpOperation& op) {
                op.may_use_reserve = true;
                return ops::change_structure(op, Errc::need_split, inode, key);
            });
            if (code == Errc::ok) continue;
        }
        const bool lacks_block = code == Errc::need_space || code == Errc::need_frame;
        if (!lacks_block || has_used_all) return code;
        has_used_all = once(team, [&] { return !core::use_held_frame(store, held); });
    }
}

/// Takes the root that the step begins with out of its parent. It has no name then, so what cannot
/// be freed of it in this step hangs on the orphan directory at its end. The look for it takes as
/// long as the opening does, so it comes beside that. False, for all, if there is no root; else it
/// is in `task`.
__device__ __noinline__ bool take_root(const WarpTeam& team, const core::Store& given_store,
                                       const RemovalRef& given_ref, const RemovalBegin& begin,
                                       Opening& opening, ops::TreeTask& task) {
    const core::Store& store = in_shared_memory(given_store);
    const RemovalRef& ref = in_shared_memory(given_ref);
    RetryReason retry_reason;
    const Result<ops::TakenTree> taken =
        run_in_step(team, store, retry_reason, [&](WarpOperation& op) {
            return ops::take_tree(op, begin.caller, begin.directory, begin.name, begin.name_length,
                                  ref.now, [&] { return wait_for_opening(team, opening); });
        });
    if (!wait_for_opening(team, opening)) return false;
    if (!taken) {
        const DeviceStep step{store, ref, {}};
        once(team, [&] {
            step.fail(taken.code());
            if (taken.code() == Errc::need_block) step.want(retry_reason.place);
        });
        return false;
    }
    once(team, [&] {
        ref.state->has_root = 1;
        ref.state->removed = taken->removed;
        ref.state->loose = 1;
    });
    task = ops::TreeTask::directory(taken->number);
    return true;
}

/// With how many directories of the orphan directory a step may begin when that has so many blocks.
__device__ u32 roots_max_of(const StepRoom& room, u64 orphan_blocks) {
    const u64 few = room.few_names();
    const bool ends_few = room.ends_few(orphan_blocks) && few < removal_roots_max;
    return ends_few ? static_cast<u32>(few) : removal_roots_max;
}

__device__ void seed_roots(const WarpTeam& team, const core::Store& store, const RemovalRef& ref) {
    const DeviceStep step{store, ref, {}};
    // Others may have left so much among the orphans that these are too many now.
    const u32 most = roots_max_of(ref.state->room, ref.state->orphan_blocks);
    const u32 count = ref.root_count < most ? ref.root_count : most;
    // A listing would begin with all that was set aside.
    if (count < ref.root_count) once(team, [&] { ref.state->may_list = 0; });
    for (u32 i = count + team.lane(); i < ref.root_count; i += WarpTeam::width)
        step.set_aside(ops::TreeTask::directory(ref.roots[i]), false);
    for (u32 base = 0; base < count; base += WarpTeam::width) {
        const u32 i = base + team.lane();
        const bool mine = i < count;
        // The first one spares a look over the bus.
        const u64 root = i == 0 ? ref.first_root : mine ? ref.roots[i] : 0;
        const ops::TreeTask task = ops::TreeTask::directory(root, true);
        const bool pushed = ref.queue.push(team, mine, task);
        if (mine && !pushed) step.set_aside(task, false);
    }
}

/// The first warp's part; the others wait for what it puts into the queue. Where the step begins
/// with a name the warp goes on with what that means, in `task`: then all answers are true, and the
/// first task is what began the run.
__device__ bool begin_step(const WarpTeam& team, const core::Store& store, const RemovalRef& ref,
                           const RemovalBegin& begin, Opening& opening, ops::TreeTask& task) {
    bool goes_on = false;
    if (begin.kind == RemovalBegin::Kind::name) {
        goes_on = take_root(team, store, ref, begin, opening, task);
    } else if (begin.kind == RemovalBegin::Kind::roots && wait_for_opening(team, opening)) {
        seed_roots(team, store, ref);
    }
    if (begin.kind != RemovalBegin::Kind::nothing) {
        once(team, [&] { ref.state->times.seeded = device_nanoseconds(); });
    }
    if (!goes_on) ref.queue.begin_over(team);
    return goes_on;
}

/// Adds what the lanes of a warp have freed to what all warps have. Who waits for the step's end
/// waits for this too, and fetches its instructions for the first time: so the lanes' sums are five
/// rounds of one short loop.
__device__ void count_tally(const WarpTeam& team, RemovalState& state,
                            const ops::FreeTally& tally) {
    u64 files = tally.files;
    u64 directories = tally.directories;
    u64 inodes = tally.inodes;
    u64 blocks = tally.blocks;
#pragma unroll 1
    for (u32 distance = WarpTeam::width / 2; distance != 0; distance /= 2) {
        files += __shfl_xor_sync(~0u, files, distance);
        directories += __shfl_xor_sync(~0u, directories, distance);
        inodes += __shfl_xor_sync(~0u, inodes, distance);
        blocks += __shfl_xor_sync(~0u, blocks, distance);
    }
    if (inodes + files + blocks == 0) return;
    once(team, [&] {
        device_atomic<u64>(state.files).fetch_add(files, hd::memory_order_relaxed);
        device_atomic<u64>(state.directories).fetch_add(directories, hd::memory_order_relaxed);
        device_atomic<u64>(state.inodes).fetch_add(inodes, hd::memory_order_relaxed);
        device_atomic<u64>(state.blocks).fetch_add(blocks, hd::memory_order_relaxed);
    });
}

/// Notes directories that are about all that is left to do: a tree of many such levels is narrow.
__device__ void watch_width(const WarpTeam& team, RemovalState& state) {
    once(team, [&] {
        if (relaxed_load(state.queue.unfinished) > lonely_tasks) return;
        const u32 before =
            device_atomic<u32>(state.lonely_count).fetch_add(1, hd::memory_order_relaxed);
        if (before + 1 != lonely_max) return;
        relaxed_store(state.is_narrow, 1);
        relaxed_store(state.must_stop, 1);
    });
}

/// Does tasks until none is left, first `task` if it `has_task`.
__device__ void work(const WarpTeam& team, const core::Store& store, const RemovalRef& ref,
                     bool has_task, ops::TreeTask task) {
    if (!has_task && !ref.queue.pop(team, task)) return;
    // What the beginning wrote into the state comes with the first task.
    RemovalState& state = *ref.state;
    DeviceStep step{store, ref, {ref.now, state.dirty_max, &state.dropping}, state.loose_max};
    if (state.holds_moves != 0) {
        step.rules.held_stripe = core::stripe_of(core::move_lock_place);
        step.rules.held_word = &state.move_word;
    }
    const bool may_list = state.may_list != 0;
    ops::TreeReclaimer<WarpTeam, DeviceStep> reclaimer(team, store, step);
    do {
        if (may_list && task.kind() == ops::TreeTask::directory_kind) watch_width(team, state);
        reclaimer.visit(task);
        ref.queue.finish(team);
    } while (ref.queue.pop(team, task));
    count_tally(team, state, reclaimer.tally);
}

/// Notes what keeps the step from its end. One lane.
__device__ void note_end(const core::Store& store, const RemovalRef& ref, Errc code,
                         const RetryReason& retry_reason) {
    const DeviceStep step{store, ref, {}};
    if (code == Errc::ok) return;
    if (code != Errc::need_block && code != Errc::need_frame) return step.fail(code);
    if (code == Errc::need_block) step.want(retry_reason.place);
    if (code == Errc::need_frame) relaxed_store(ref.state->wants_frames, 1);
    relaxed_store(ref.state->must_wait, 1);
}

/// Ends every `step`th of the emptied roots from the `first` on.
__device__ void end_roots(const WarpTeam& team, const core::Store& store, const RemovalRef& ref,
                          u32 first, u32 step) {
    RemovalState& state = *ref.state;
    const u32 count = load(team, state.emptied_count);
    const bool prunes = load(team, state.takes_few) != 0;
    for (u32 i = first; i < count; i += step) {
        const u64 number = load(team, ref.emptied[i]);
        if (number == 0) continue;
        RetryReason retry_reason;
        const Errc code = end_root(team, store, number, ref.now, prunes, retry_reason);
        once(team, [&] {
            if (code != Errc::ok) return note_end(store, ref, code, retry_reason);
            relaxed_store(ref.emptied[i], 0);
            device_atomic<u64>(state.directories).fetch_add(1, hd::memory_order_relaxed);
        });
    }
    team.sync();
}

/// Hangs every `step`th of the unfinished directories on the orphan directory.
__device__ void adopt_some(const WarpTeam& team, const core::Store& store, const RemovalRef& ref,
                           u32 first, u32 step) {
    const u32 count = load(team, ref.state->unfinished_count);
    for (u32 i = first; i < count; i += step) {
        const u64 number = ops::TreeTask{ref.unfinished[i], 0}.number();
        RetryReason retry_reason;
        const Errc code = adopt(team, store, ref.state->held, number, ref.now, retry_reason);
        const bool may_come = code == Errc::need_block || code == Errc::need_frame;
        once(team, [&] {
            if (code != Errc::ok && !may_come) relaxed_store(ref.state->hangs_nowhere, 1);
            note_end(store, ref, code, retry_reason);
        });
    }
    team.sync();
}

/// Tells the host where the step is; if it `is_ended`, counts what went and lets go of the freeze
/// barrier. One lane, the last one at work.
__device__ void report_step(const core::Store& store, const RemovalRef& ref, bool is_ended) {
    RemovalState& state = *ref.state;
    RemovalReport& report = *ref.report;
    if (is_ended && state.is_open != 0 && state.must_wait == 0) {
        device_atomic<u64>(store.state->blocks_used)
            .fetch_sub(state.blocks, hd::memory_order_relaxed);
        device_atomic<u64>(store.state->inodes_used)
            .fetch_sub(state.inodes, hd::memory_order_relaxed);
        core::let_go_frames(store, state.held);
        leave_step(store, state.credits);
        state.is_open = 0;
    }
    state.times.ended = device_nanoseconds();
    report.code = static_cast<Errc>(relaxed_load(state.error));
    report.is_open = state.is_open;
    report.is_narrow = state.is_open != 0 ? state.is_narrow : 0;
    report.has_root = state.has_root;
    report.unfinished_count = state.unfinished_count;
    if (state.unfinished_count != 0 || ref.root_count != 0) {
        report.roots_max = roots_max_of(state.room, count_orphan_blocks(store));
    }
    report.wanted_count = state.wanted_count;
    report.wants_frames = state.wants_frames;
    report.hangs_nowhere = state.hangs_nowhere;
    report.lacks_room = state.lacks_room;
    report.files = state.files;
    report.directories = state.directories;
    report.blocks = state.blocks;
    report.removed = state.removed;
    report.times = state.times;
    state.must_wait = 0;
    state.wants_frames = 0;
    state.enders_left = ender_warps;
    // Release: pairs with the acquire in TreeRemoval::wait_for_report().
    system_atomic<u64>(report.sequence).store(ref.sequence, hd::memory_order_release);
}

/// The part of the warp that leaves last.
__device__ void finish_step(const WarpTeam& team, const core::Store& store, const RemovalRef& ref) {
    RemovalState& state = *ref.state;
    once(team, [&] {
        state.times.reclaimed = device_nanoseconds();
        state.workers_out = 0;
        ref.queue.reset();
        if (state.holds_moves == 0) return;
        state.holds_moves = 0;
        // Release: pairs with the acquire of who moves a directory next.
        device_atomic<u64>(store.versions[core::stripe_of(core::move_lock_place)])
            .store(state.move_version + 2, hd::memory_order_release);
    });
    const bool is_open = load(team, state.is_open) != 0;
    const bool is_small = load(team, state.unfinished_count) == 0 &&
                          load(team, state.emptied_count) <= ended_alone_max &&
                          load(team, state.is_narrow) == 0;
    const bool is_ended = !is_open || is_small;
    if (is_open && is_ended) end_roots(team, store, ref, 0, 1);
    once(team, [&] { report_step(store, ref, is_ended); });
}

/// What all warps of a block read all the time, in shared memory: a kernel's parameters lie behind
/// a cache that every acquire empties.
struct StepValues {
    core::Store store;
    RemovalRef ref;
    RemovalBegin begin;
    Opening opening;
};

/// Copies a value into shared memory, all threads of the block together.
template <class T>
__device__ void copy_words(T& to, const T& from) {
    static_assert(sizeof(T) % sizeof(u64) == 0);
    auto* target = reinterpret_cast<u64*>(&to);
    const auto* source = reinterpret_cast<const u64*>(&from);
    for (u32 i = threadIdx.x; i < sizeof(T) / sizeof(u64); i += blockDim.x)
        target[i] = source[i];
}

__global__ void __launch_bounds__(256)
    remove_trees(const __grid_constant__ core::Store store_given,
                 const __grid_constant__ RemovalRef ref_given,
                 const __grid_constant__ RemovalBegin begin_given) {
    __shared__ alignas(16) std::byte memory[sizeof(StepValues)];
    auto& values = *reinterpret_cast<StepValues*>(memory);
    copy_words(values.store, store_given);
    copy_words(values.ref, ref_given);
    if (blockIdx.x == 0) copy_words(values.begin, begin_given);
    if (threadIdx.x == 0) values.opening = Opening::waits;
    __syncthreads();
    const core::Store& store = values.store;
    const RemovalRef& ref = values.ref;
    const RemovalBegin& begin = values.begin;
    const WarpTeam team{(blockIdx.x * blockDim.x + threadIdx.x) / WarpTeam::width};
    const u32 opener = blockDim.x > WarpTeam::width ? 1 : 0;
    if (team.worker == opener && begin.kind != RemovalBegin::Kind::nothing) {
        once(team, [&] {
            open_step(store, ref);
            tell_opening(*ref.state, values.opening);
        });
    }
    ops::TreeTask task;
    const bool has_task =
        team.worker == 0 && begin_step(team, store, ref, begin, values.opening, task);
    work(team, store, ref, has_task, task);
    team.sync();
    const bool is_last = once(team, [&] {
        // Acquire and release: the last one sees what all others did.
        return device_atomic<u32>(ref.state->workers_out).fetch_add(1, hd::memory_order_acq_rel) +
                   1 ==
               ref.workers;
    });
    if (is_last) finish_step(team, store, ref);
}

__global__ void end_step(const __grid_constant__ core::Store store_given,
                         const __grid_constant__ RemovalRef ref_given) {
    __shared__ alignas(16) std::byte memory[sizeof(StepValues)];
    auto& values = *reinterpret_cast<StepValues*>(memory);
    copy_words(values.store, store_given);
    copy_words(values.ref, ref_given);
    __syncthreads();
    const core::Store& store = values.store;
    const RemovalRef& ref = values.ref;
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / WarpTeam::width;
    const WarpTeam team{warp};
    const u32 warps = gridDim.x * blockDim.x / WarpTeam::width;
    end_roots(team, store, ref, warp, warps);
    adopt_some(team, store, ref, warp, warps);
    const bool is_last = once(team, [&] {
        // Acquire and release: the last one sees what all others did.
        return device_atomic<u32>(ref.state->enders_left).fetch_sub(1, hd::memory_order_acq_rel) ==
               1;
    });
    if (is_last && team.is_leader()) report_step(store, ref, true);
}

}  // namespace

Errc launch_step(const core::Store& store, const RemovalRef& ref, const RemovalBegin& begin,
                 const RemovalShape& shape, const gpu::Stream& stream) {
    remove_trees<<<shape.blocks, shape.warps_per_block * WarpTeam::width, 0, stream.get()>>>(
        store, ref, begin);
    return gpu::check(cudaGetLastError(), "remove_trees");
}

Errc launch_end(const core::Store& store, const RemovalRef& ref, const gpu::Stream& stream) {
    end_step<<<ender_warps, WarpTeam::width, 0, stream.get()>>>(store, ref);
    return gpu::check(cudaGetLastError(), "end_step");
}

}  // namespace warren::cuda_engine
