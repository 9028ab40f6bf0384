// SPDX-License-Identifier: Apache-2.0
// The kernels of a bulk step that removes a tree, and the host that starts them. The kernel that
// does the work holds no other operation, so its stack is small and many warps fit.
#include "fs/engine/cuda/removal_step.hpp"

#include <time.h>

#include <algorithm>

#include "fs/ops/change_structure.hpp"
#include "fs/ops/remove_tree.hpp"
#include "gpu/failure.hpp"
#include "team/warp_team.hpp"

namespace warren::cuda_engine {
namespace {

using WarpOperation = core::Operation<WarpTeam>;

constexpr u64 step_nanoseconds = 100'000'000;  // a commit waits no longer than about this
constexpr u32 list_entries = 1u << 20;
constexpr u32 list_margin = 1u << 17;  // what all warps may still add when a list looks full
constexpr u32 ender_warps = 32;
constexpr u32 idle_steps_max = 1000;
constexpr u64 lonely_tasks = 4;  // a chain's: one directory begins while those before it end
constexpr u32 lonely_max = 10;   // levels of a chain before a listing pays

/// Passes the gate for all that the step does, and takes its share of the journal.
__device__ Errc enter_gate(const core::Store& store, u64& share) {
    core::StoreState& state = *store.state;
    device_atomic<u64> inside(state.gate[0].inside);
    // Sequentially consistent: pairs with close_gate(), which closes, then looks inside.
    inside.fetch_add(1, hd::memory_order_seq_cst);
    Errc code = Errc::ok;
    share = relaxed_load(state.journal_room) / 4;
    if (device_atomic<u32>(state.gate_closed).load(hd::memory_order_seq_cst) != 0) {
        code = Errc::retry;
    } else if (relaxed_load(state.read_only) != 0) {
        code = Errc::read_only;
    } else {
        const u64 ahead =
            device_atomic<u64>(state.promised_blocks).fetch_add(share, hd::memory_order_relaxed);
        const u64 wanted = relaxed_load(state.dirty_blocks) + share;
        if (wanted + ahead > relaxed_load(state.journal_room)) {
            device_atomic<u64>(state.promised_blocks).fetch_sub(share, hd::memory_order_relaxed);
            code = wanted > relaxed_load(state.journal_room) ? Errc::need_commit : Errc::retry;
        }
    }
    // Release: pairs with the acquire in close_gate().
    if (code != Errc::ok) inside.fetch_sub(1, hd::memory_order_release);
    return code;
}

__device__ void leave_gate(const core::Store& store, u64 share) {
    device_atomic<u64>(store.state->promised_blocks).fetch_sub(share, hd::memory_order_relaxed);
    // Release: pairs with the acquire in close_gate(): the commit sees all that the step wrote.
    device_atomic<u64>(store.state->gate[0].inside).fetch_sub(1, hd::memory_order_release);
}

__global__ void begin_step(core::Store store, RemovalRef ref) {
    RemovalState& state = *ref.state;
    if (threadIdx.x == 0) {
        ref.queue.reset();
        state.loose = 0;
        state.unfinished_count = 0;
        state.freed_root_count = 0;
        state.wanted_count = 0;
        state.must_wait = 0;
        state.enders_left = ender_warps;
        state.may_list = 1;
        state.lonely_count = 0;
        state.is_narrow = 0;
        state.is_listing = 0;
        state.holds_moves = 0;
        state.files = 0;
        state.directories = 0;
        state.inodes = 0;
        state.blocks = 0;
        const Errc code = enter_gate(store, state.share);
        state.error = static_cast<u32>(code);
        state.is_open = code == Errc::ok ? 1 : 0;
        const u64 dirty = relaxed_load(store.state->dirty_blocks);
        state.dirty_limit = dirty + state.share / 2;
        state.dirty_max = dirty + state.share / 2;
        state.loose_limit = state.share / 8 * (format::leaf_entries_max / 2);
        if (state.loose_limit > list_entries - list_margin) {
            state.loose_limit = list_entries - list_margin;
        }
        state.deadline = device_nanoseconds() + step_nanoseconds;
        if (code != Errc::ok) state.queue.is_done = 1;
    }
    __syncthreads();
    if (state.is_open == 0) return;
    const DeviceStep step{store, ref, {}};
    for (u32 i = threadIdx.x; i < ref.root_count; i += blockDim.x) {
        const u64 root = i == 0 ? ref.first_root : ref.roots[i];
        const ops::TreeTask task = ops::TreeTask::directory(root, true);
        // Nobody takes tasks yet, so they must not fill the ring.
        if (i < ref.queue.capacity / 2) {
            ref.queue.seed(task);
        } else {
            step.set_aside(task, false);
        }
    }
}

/// The sum of a value over the lanes of a team.
template <class Team>
__device__ u64 sum_over(const Team& team, u64 value) {
    u64 sum = 0;
    for (u32 lane = 0; lane < Team::width; ++lane)
        sum += team.broadcast(value, lane);
    return sum;
}

__device__ void count_tally(const WarpTeam& team, RemovalState& state,
                            const ops::FreeTally& tally) {
    const u64 files = sum_over(team, tally.files);
    const u64 directories = sum_over(team, tally.directories);
    const u64 inodes = sum_over(team, tally.inodes);
    const u64 blocks = sum_over(team, tally.blocks);
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
        if (before + 1 == lonely_max) relaxed_store(state.is_narrow, 1);
    });
}

__global__ void __launch_bounds__(256, 2) harvest_trees(core::Store store, RemovalRef ref) {
    const WarpTeam team{(blockIdx.x * blockDim.x + threadIdx.x) / WarpTeam::width};
    RemovalState& state = *ref.state;
    DeviceStep step{store, ref, {ref.now, state.dirty_max}};
    if (state.holds_moves != 0) {
        step.rules.held_stripe = core::stripe_of(core::move_lock_place);
        step.rules.held_word = &state.move_word;
    }
    const bool may_list = state.may_list != 0;
    ops::Harvester<WarpTeam, DeviceStep> harvester(team, store, step);
    ops::TreeTask task;
    while (ref.queue.pop(team, task)) {
        if (may_list && task.kind() == ops::TreeTask::directory_kind) watch_width(team, state);
        harvester.visit(task);
        ref.queue.finish(team);
    }
    count_tally(team, state, harvester.tally);
}

__device__ Errc code_of(Errc code) {
    return code;
}
template <class T>
__device__ Errc code_of(const Result<T>& result) {
    return result.code();
}

/// Runs a part of the step to its end. Errc::need_block names the place in `place`.
template <class Body>
__device__ Errc run_in_step(const WarpTeam& team, const core::Store& store, u64& place,
                            const Body& body) {
    for (;;) {
        WarpOperation op(team, store);
        op.gate_is_held = true;
        Errc code = code_of(body(op));
        place = op.needed_place;
        const u64 inode = op.needed_inode;
        const u64 key = op.needed_key;
        core::finish(op);
        if (code == Errc::need_split) {
            WarpOperation inner(team, store);
            inner.gate_is_held = true;
            inner.may_use_reserve = true;
            code = ops::change_structure(inner, code, inode, key);
            place = inner.needed_place;
            core::finish(inner);
            if (code == Errc::ok) code = Errc::retry;
        }
        if (code != Errc::retry) return code;
        once(team, [] { pause_briefly(); });
    }
}

/// Takes the name of a freed directory out of the orphan directory.
__device__ __noinline__ Errc end_root(const WarpTeam& team, const core::Store& store, u64 number,
                                      i64 now, u64& place) {
    // A leaf that gets empty stays: it does no harm, and the next orphan has room there.
    return run_in_step(team, store, place,
                       [&](WarpOperation& op) { return ops::drop_orphan(op, number, now); });
}

__device__ __noinline__ Errc adopt(const WarpTeam& team, const core::Store& store, u64 number,
                                   i64 now, u64& place) {
    return run_in_step(team, store, place,
                       [&](WarpOperation& op) { return ops::adopt_orphan(op, number, now); });
}

/// The last warp: counts what went, lets go of the gate and tells the host.
__device__ void close_step(const core::Store& store, const RemovalRef& ref) {
    RemovalState& state = *ref.state;
    RemovalReport& report = *ref.report;
    report.is_narrow = state.is_open != 0 ? state.is_narrow : 0;
    if (state.must_wait == 0 && state.is_open != 0 && report.is_narrow == 0) {
        device_atomic<u64>(store.state->blocks_used)
            .fetch_sub(state.blocks, hd::memory_order_relaxed);
        device_atomic<u64>(store.state->inodes_used)
            .fetch_sub(state.inodes, hd::memory_order_relaxed);
        leave_gate(store, state.share);
        state.is_open = 0;
    }
    report.code = static_cast<Errc>(relaxed_load(state.error));
    report.is_open = state.is_open;
    report.unfinished_count = state.unfinished_count;
    report.wanted_count = state.wanted_count;
    report.files = state.files;
    report.directories = state.directories;
    report.blocks = state.blocks;
    state.must_wait = 0;
    state.enders_left = ender_warps;
}

__global__ void end_step(core::Store store, RemovalRef ref) {
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / WarpTeam::width;
    const u32 warps = gridDim.x * blockDim.x / WarpTeam::width;
    const WarpTeam team{warp};
    RemovalState& state = *ref.state;
    if (warp == 0 && state.holds_moves != 0) {
        once(team, [&] {
            state.holds_moves = 0;
            // Release: pairs with the acquire of who moves a directory next.
            device_atomic<u64>(store.versions[core::stripe_of(core::move_lock_place)])
                .store(state.move_version + 2, hd::memory_order_release);
        });
    }
    const u32 roots = state.freed_root_count;
    const u32 all = roots + state.unfinished_count;
    const bool is_wanted = state.is_open != 0 && state.is_narrow == 0;
    for (u32 i = warp; i < all && is_wanted; i += warps) {
        u64 place = 0;
        Errc code = Errc::ok;
        if (i < roots) {
            code = end_root(team, store, ref.freed_roots[i], ref.now, place);
        } else {
            const u64 number = ops::TreeTask{ref.unfinished[i - roots], 0}.number();
            code = adopt(team, store, number, ref.now, place);
        }
        if (code == Errc::ok) continue;
        once(team, [&] {
            const DeviceStep step{store, ref, {}};
            if (code != Errc::need_block) return step.fail(code);
            step.want(place);
            relaxed_store(state.must_wait, 1);
        });
    }
    team.sync();
    once(team, [&] {
        // Acquire and release: the last one sees what all others did.
        if (device_atomic<u32>(state.enders_left).fetch_sub(1, hd::memory_order_acq_rel) == 1) {
            close_step(store, ref);
            __threadfence_system();
        }
    });
}

i64 host_nanoseconds() {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return i64{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

Errc launched(const char* kernel) {
    return gpu::check(cudaGetLastError(), kernel);
}

}  // namespace

Errc TreeRemoval::open(const RemovalShape& shape) {
    shape_ = shape;
    warps_ = shape.blocks * shape.warps_per_block;
    WARREN_TRY(stream_.open());
    WARREN_TRY(begin_.open());
    WARREN_TRY(harvested_.open());
    WARREN_TRY(end_.open());
    WARREN_TRY(state_.allocate(1));
    WARREN_TRY(slots_.allocate(shape.queue_capacity));
    WARREN_TRY(lists_.allocate(4 * u64{list_entries}));
    constexpr u64 listed_max = u64{TreeListing::frames_max} * format::inodes_per_frame;
    WARREN_TRY(listed_.allocate(2 * listed_max + TreeListing::frames_max));
    WARREN_TRY(directories_.allocate(listed_max));
    WARREN_TRY(roots_.allocate(list_entries));
    WARREN_TRY(report_.allocate(1));
    WARREN_TRY(stream_.fill(slots_.data(), 0, slots_.bytes()));
    WARREN_TRY(stream_.fill(state_.data(), 0, state_.bytes()));
    return stream_.wait();
}

RemovalRef TreeRemoval::ref() const {
    RemovalRef ref{};
    ref.state = state_.data();
    ref.queue.slots = slots_.data();
    ref.queue.capacity = slots_.count();
    ref.queue.margin = std::min(slots_.count(), u64{warps_} * 32);
    ref.queue.state = &state_.data()->queue;
    ref.unfinished = lists_.data();
    ref.freed_roots = lists_.data() + list_entries;
    ref.wanted = lists_.data() + 2 * u64{list_entries};
    ref.seeds = lists_.data() + 3 * u64{list_entries};
    constexpr u64 listed_max = u64{TreeListing::frames_max} * format::inodes_per_frame;
    ref.listing.ranks = ranks_.data();
    ref.listing.above = listed_.data();
    ref.listing.reached = listed_.data() + listed_max;
    ref.listing.frames = listed_.data() + 2 * listed_max;
    ref.listing.directories = directories_.data();
    ref.roots = roots_.data();
    ref.root_count = root_count_;
    ref.first_root = roots_.data()[0];
    ref.list_max = list_entries;
    ref.now = now_;
    ref.report = report_.data();
    return ref;
}

float TreeRemoval::kernel_ms() const {
    const Result<float> taken = end_.milliseconds_since(begin_);
    return taken ? *taken : 0;
}

float TreeRemoval::end_ms() const {
    const Result<float> taken = end_.milliseconds_since(harvested_);
    return taken ? *taken : 0;
}

Errc TreeRemoval::bring_wanted(RemovalHost& host) {
    const u32 count = std::min(report_.data()->wanted_count, list_entries);
    if (count == 0) return Errc::ok;
    std::vector<u64> places(count);
    WARREN_TRY(stream_.copy(places.data(), ref().wanted, count * sizeof(u64)));
    WARREN_TRY(stream_.wait());
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    return host.bring(places);
}

/// The last kernel of a step, as often as it takes to bring the blocks it needs into memory.
Errc TreeRemoval::end_step(const core::Store& store, RemovalHost& host) {
    for (;;) {
        cuda_engine::end_step<<<ender_warps, WarpTeam::width, 0, stream_.get()>>>(store, ref());
        WARREN_TRY(launched("end_step"));
        WARREN_TRY(end_.record(stream_));
        WARREN_TRY(stream_.wait());
        const RemovalReport& report = *report_.data();
        if (report.is_open == 0) return Errc::ok;
        if (report.is_narrow != 0) {
            WARREN_TRY(list_trees(store, ref(), stream_));
            WARREN_TRY(launch_harvest(store));
        } else {
            WARREN_TRY(bring_wanted(host));
        }
    }
}

Errc TreeRemoval::launch_harvest(const core::Store& store) {
    harvest_trees<<<shape_.blocks, shape_.warps_per_block * WarpTeam::width, 0, stream_.get()>>>(
        store, ref());
    WARREN_TRY(launched("harvest_trees"));
    return harvested_.record(stream_);
}

Errc TreeRemoval::run_step(const core::Store& store, RemovalHost& host, Removal& removal) {
    ++steps_;
    now_ = host_nanoseconds();
    WARREN_TRY(begin_.record(stream_));
    begin_step<<<1, 256, 0, stream_.get()>>>(store, ref());
    WARREN_TRY(launch_harvest(store));
    WARREN_TRY(end_step(store, host));
    const RemovalReport& report = *report_.data();
    removal.files += report.files;
    removal.directories += report.directories;
    removal.blocks += report.blocks;
    return report.code;
}

/// The next step begins with what this one left.
Errc TreeRemoval::prepare_next_step(RemovalHost& host) {
    const u32 count = report_.data()->unfinished_count;
    const bool is_cold = report_.data()->wanted_count > 0;
    root_count_ = count;
    if (count == 0) return Errc::ok;
    WARREN_TRY(stream_.copy(roots_.data(), ref().unfinished, count * sizeof(u64)));
    WARREN_TRY(stream_.wait());
    WARREN_TRY(bring_wanted(host));
    for (u32 i = 0; i < count; ++i) {
        u64& root = roots_.data()[i];
        const bool has_leftovers = (root & looked_through) != 0 && !is_cold;
        root = ops::TreeTask{root & ~looked_through, 0}.number();
        if (has_leftovers) WARREN_TRY(host.remove_leftovers(root));
    }
    return Errc::ok;
}

Errc TreeRemoval::remove(const core::Store& store, u64 root, RemovalHost& host, Removal& removal) {
    WARREN_TRY(ranks_.reserve(store.frame_count));
    roots_.data()[0] = root;
    root_count_ = 1;
    u32 idle_steps = 0;
    while (root_count_ != 0) {
        Removal step;
        const Errc code = run_step(store, host, step);
        if (code == Errc::retry) continue;
        if (code == Errc::need_commit) {
            WARREN_TRY(host.commit());
            continue;
        }
        removal.files += step.files;
        removal.directories += step.directories;
        removal.blocks += step.blocks;
        if (code != Errc::ok) return code;
        const bool is_idle =
            step.files + step.directories == 0 && report_.data()->wanted_count == 0;
        idle_steps = is_idle ? idle_steps + 1 : 0;
        // A directory counts names that are nowhere to be found.
        if (idle_steps == idle_steps_max) return Errc::corrupt;
        WARREN_TRY(prepare_next_step(host));
    }
    return Errc::ok;
}

}  // namespace warren::cuda_engine
