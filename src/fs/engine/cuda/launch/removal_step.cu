// SPDX-License-Identifier: Apache-2.0
// The kernels of a bulk step that removes a tree. Nearly always there is one: its second warp
// passes the freeze barrier while the first looks up the tree's root, the others wait for tasks in
// the queue, and the last warp to finish ends the step.
//
// Invariant: the step does not leave the freeze barrier before its report says that it has ended.
#include "fs/engine/cuda/launch/removal_step.hpp"

#include "fs/engine/cuda/launch/removal_opening.cuh"
#include "fs/ops/change_structure.hpp"
#include "fs/ops/remove_tree.hpp"
#include "gpu/failure.hpp"
#include "team/warp_team.hpp"

namespace warren::cuda_engine {
namespace {

using WarpOperation = core::Operation<WarpTeam>;

constexpr u32 ended_alone_max = 4;  // emptied roots that the last warp handles by itself
constexpr u64 lonely_tasks = 4;     // tasks of a chain: one begins while those before it end
constexpr u32 lonely_max = 10;      // levels of a chain after which a listing saves time

/// The block, inode or key that an operation of the step needs.
struct RetryReason {
    u64 place = 0;
    u64 inode = 0;
    u64 key = 0;
};

/// Runs an operation within the step until it has a result or a retry reason other than
/// Errc::retry.
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

/// Removes an emptied directory from the orphan directory and frees its inode; if `prunes`, also
/// removes a leaf of the orphan directory that becomes empty.
__device__ __noinline__ Errc end_root(const WarpTeam& team, const core::Store& given, u64 number,
                                      i64 now, bool prunes, RetryReason& retry_reason) {
    const core::Store& store = in_shared_memory(given);
    const auto ended = run_in_step(team, store, retry_reason, [&](WarpOperation& op) {
        return ops::end_emptied(op, number, now);
    });
    if (!ended || !prunes || ended->prune_inode == 0) return ended.code();
    // If the leaf cannot be removed now it stays: an empty leaf is valid, and later orphans use it.
    RetryReason ignored;
    static_cast<void>(run_in_step(team, store, ignored, [&](WarpOperation& op) {
        return ops::change_structure(op, Errc::need_prune, ended->prune_inode, ended->prune_key);
    }));
    return Errc::ok;
}

/// Adds a directory to the orphan directory. If that needs blocks and no others are free, it uses
/// the held frames.
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

/// Detaches the tree's root from its parent. The parts of the tree that this step does not free are
/// added to the orphan directory at its end. Looking the root up takes as long as opening the step,
/// so another warp does that meanwhile. False, in all lanes, on an error; else `task` is the root.
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
        ref.state->detached = 1;
    });
    task = ops::TreeTask::directory(taken->number);
    return true;
}

/// With how many roots a step may begin if the orphan directory has `orphan_blocks` blocks.
__device__ u32 roots_max_of(const StepRoom& room, u64 orphan_blocks) {
    const u64 few = room.few_names();
    const bool ends_few = room.ends_few(orphan_blocks) && few < removal_roots_max;
    return ends_few ? static_cast<u32>(few) : removal_roots_max;
}

__device__ void seed_roots(const WarpTeam& team, const core::Store& store, const RemovalRef& ref) {
    const DeviceStep step{store, ref, {}};
    // Others may have added so many orphans since that these roots are too many now.
    const u32 most = roots_max_of(ref.state->room, ref.state->orphan_blocks);
    const u32 count = ref.root_count < most ? ref.root_count : most;
    // A listing would start from all directories that were set aside, so there must be none.
    if (count < ref.root_count) once(team, [&] { ref.state->may_list = 0; });
    for (u32 i = count + team.lane(); i < ref.root_count; i += WarpTeam::width)
        step.set_aside(ops::TreeTask::directory(ref.roots[i]), false);
    for (u32 base = 0; base < count; base += WarpTeam::width) {
        const u32 i = base + team.lane();
        const bool mine = i < count;
        // The first root is an argument, which saves a load over the bus.
        const u64 root = i == 0 ? ref.first_root : mine ? ref.roots[i] : 0;
        const ops::TreeTask task = ops::TreeTask::directory(root, true);
        const bool pushed = ref.queue.push(team, mine, task);
        if (mine && !pushed) step.set_aside(task, false);
    }
}

/// Begins the step's run of the queue; called by the first warp, while the others wait for tasks.
/// If the step begins with a name, returns true, and the warp itself executes `task`, the root, as
/// the first task of the run.
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

/// Adds the counts of a warp's lanes to those of all warps. The end of the step waits for this, and
/// its instructions are fetched for the first time here, so it is a short loop of five rounds that
/// is not unrolled.
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
        relaxed_add(state.files, files);
        relaxed_add(state.directories, directories);
        relaxed_add(state.inodes, inodes);
        relaxed_add(state.blocks, blocks);
    });
}

/// Counts directories that are visited when hardly any other task is left. A tree with many such
/// levels is narrow: then the step stops for a listing.
__device__ void watch_width(const WarpTeam& team, RemovalState& state) {
    once(team, [&] {
        if (relaxed_load(state.queue.unfinished) > lonely_tasks) return;
        const u32 before = relaxed_add(state.lonely_count, 1);
        if (before + 1 != lonely_max) return;
        relaxed_store(state.is_narrow, 1);
        relaxed_store(state.must_stop, 1);
    });
}

/// Executes tasks until none is left, first `task` if `has_task`.
__device__ void work(const WarpTeam& team, const core::Store& store, const RemovalRef& ref,
                     bool has_task, ops::TreeTask task) {
    if (!has_task && !ref.queue.pop(team, task)) return;
    // The first task makes the state visible that open_step() has written.
    RemovalState& state = *ref.state;
    DeviceStep step{store, ref, {ref.now, state.dirty_max, &state.dropping}, state.detached_max};
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

/// Notes why the step cannot end. Called by one lane.
__device__ void note_end(const core::Store& store, const RemovalRef& ref, Errc code,
                         const RetryReason& retry_reason) {
    const DeviceStep step{store, ref, {}};
    if (code == Errc::ok) return;
    if (code != Errc::need_block && code != Errc::need_frame) return step.fail(code);
    if (code == Errc::need_block) step.want(retry_reason.place);
    if (code == Errc::need_frame) relaxed_store(ref.state->wants_frames, 1);
    relaxed_store(ref.state->must_wait, 1);
}

/// Calls end_root() for every `step`th of the emptied roots, from `first` on.
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
            relaxed_add(state.directories, 1);
        });
    }
    team.sync();
}

/// Adds every `step`th of the unfinished directories, from `first` on, to the orphan directory.
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

/// Writes the report for the host. If `is_ended` and nothing keeps the step from its end, updates
/// the volume's counters and leaves the freeze barrier first. Called by one lane of the last warp.
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
    if (state.unfinished_count != 0 || ref.root_count != 0) {
        state.roots_max = roots_max_of(state.room, count_orphan_blocks(store));
    }
    static_cast<RemovalOutcome&>(report) = state;
    state.must_wait = 0;
    state.wants_frames = 0;
    state.enders_left = ender_warps;
    // Release: pairs with the acquire in TreeRemoval::wait_for_report().
    system_atomic<u64>(report.sequence).store(ref.sequence, hd::memory_order_release);
}

/// Ends the step's kernel. Called by the last warp.
__device__ void finish_step(const WarpTeam& team, const core::Store& store, const RemovalRef& ref) {
    RemovalState& state = *ref.state;
    once(team, [&] {
        state.times.reclaimed = device_nanoseconds();
        state.workers_out = 0;
        ref.queue.reset();
        if (state.holds_moves == 0) return;
        state.holds_moves = 0;
        // Release: pairs with the acquire of the next operation that locks the move lock.
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

/// Values that all warps read all the time, copied to shared memory: kernel parameters lie behind a
/// cache that every acquire empties.
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

// A multiprocessor runs one block, so registers are plentiful: with 128 of them they spill.
__global__ void __launch_bounds__(256, 1)
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
        // Acquire and release: the last warp sees all writes of the others.
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
        // Acquire and release: the last warp sees all writes of the others.
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
