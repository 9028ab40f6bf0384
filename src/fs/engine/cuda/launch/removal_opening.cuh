// SPDX-License-Identifier: Apache-2.0
// The opening of a bulk step that removes a tree: one warp initializes the step's state, passes the
// freeze barrier and holds frames for the names that the step may leave. Meanwhile another warp
// looks up the tree's root, which only reads; it waits for the opening before it writes.
//
// Invariant: until tell_opening() no other thread of the step accesses its state, except for the
// words of the queue.
#pragma once

#include "fs/engine/cuda/launch/removal_step.hpp"

#if defined(__CUDACC__)

namespace warren::cuda_engine {

inline constexpr u64 step_nanoseconds = 100'000'000;  // bounds how long a commit waits for a step
inline constexpr u32 list_margin = 1u << 17;  // entries that warps may add until all see it is full

/// How many blocks the orphan directory has; a very large number if its inode is not in memory.
/// Called by one lane.
__device__ inline u64 count_orphan_blocks(const core::Store& store) {
    const core::InodeRef orphans = core::inode_at(store, store.orphan_directory);
    const u64 place = orphans.block_place();
    // Both loads are issued before either result is used.
    const bool resident = ops::are_resident(store, place, place);
    const u64 blocks = relaxed_load(orphans.at->blocks);
    return resident ? blocks : store.block_count();
}

/// Passes the freeze barrier for the step and reserves `blocks` journal credits. Errc::need_space
/// if no commit could hold so many. Called by one lane.
__device__ inline Errc enter_step(const core::Store& store, u64 blocks,
                                  core::JournalCredits& credits) {
    core::StoreState& state = *store.state;
    const u64 room = relaxed_load(state.journal_room);
    WARREN_TRY(credits.pass_barrier(state, core::step_worker));
    if (blocks > ops::most_credits(room)) {
        const bool is_read_only = relaxed_load(state.read_only) != 0;
        return is_read_only ? Errc::read_only : Errc::need_space;
    }
    return credits.verdict(credits.reserve(state, blocks), blocks);
}

/// Leaves the freeze barrier and gives the `blocks` credits back, which the step's state has kept
/// since enter_step(). Called by one lane.
__device__ inline void leave_step(const core::Store& store, u64 blocks) {
    core::check_step_credits(*store.state);
    core::fence_release();  // pairs with fence_acquire() in JournalCredits::verdict()
    core::JournalCredits::resume(*store.state, core::step_worker, blocks).leave();
}

/// Holds frames for the names that the step may add to the orphan directory, and sets the step's
/// limits accordingly. If it gets fewer frames than all warps could need, or takes few names, the
/// step counts each directory before it is detached. Called by one lane.
__device__ inline Errc hold_room(const core::Store& store, const RemovalRef& ref) {
    RemovalState& state = *ref.state;
    const bool takes_few = state.takes_few != 0;
    const u64 by_journal = takes_few ? state.room.few_names()
                                     : state.room.new_blocks * (format::leaf_entries_max / 2) + 1;
    constexpr u64 by_list = removal_list_entries - list_margin - removal_roots_max;
    const u64 limit = by_journal < by_list ? by_journal : by_list;
    const u64 ahead = u64{format::leaf_entries_max} * ref.workers;  // before all see the limit
    const u64 old = state.orphan_blocks;
    const u64 blocks = core::blocks_for_orphans(limit + ahead, old, ender_warps);
    const u64 plenty = (blocks + format::blocks_per_frame - 1) / format::blocks_per_frame;
    const u64 half = relaxed_load(store.state->free_frames) / 2;
    const u64 wanted = plenty <= half ? plenty : half > 0 ? half : 1;
    WARREN_LET(held, core::hold_frames(store, state.held, static_cast<u32>(wanted)));
    state.room_names =
        core::orphan_names_in(*held * u64{format::blocks_per_frame}, old, ender_warps);
    const u64 names = limit < state.room_names ? limit : state.room_names;
    // If few names are taken, detached_max bounds the count, and this limit must not stop the step.
    state.limits[0] = takes_few ? names + 1 : names;
    const bool has_plenty = state.room_names >= limit + ahead;
    state.detached_max = takes_few ? names : has_plenty ? detached_unbounded : state.room_names;
    return Errc::ok;
}

/// Initializes the step's state and passes the freeze barrier. Called by one lane, before any warp
/// has a task.
__device__ inline void open_step(const core::Store& store, const RemovalRef& ref) {
    RemovalState& state = *ref.state;
    // These loads are issued first, because they take longest.
    const u64 orphan_blocks = count_orphan_blocks(store);
    const u64 step_credits = credits_of_step(store, ref.workers);
    const u64 journal_room = relaxed_load(store.state->journal_room);
    static_cast<RemovalOutcome&>(state) = {};
    state.times.begun = device_nanoseconds();
    state.detached = 0;
    state.emptied_count = 0;
    state.must_wait = 0;
    state.enders_left = ender_warps;
    state.may_list = 1;
    state.lonely_count = 0;
    state.is_listing = 0;
    state.holds_moves = 0;
    state.dropping = 0;
    state.room = StepRoom::of(journal_room);
    state.orphan_blocks = orphan_blocks;
    state.takes_few = state.room.takes_few(orphan_blocks) ? 1 : 0;
    core::JournalCredits credits;
    Errc code = enter_step(store, step_credits, credits);
    if (code == Errc::ok) code = hold_room(store, ref);
    if (code != Errc::ok) credits.leave();
    state.credits = credits.keep();
    state.lacks_room = code == Errc::need_space || code == Errc::need_frame ? 1 : 0;
    state.error = static_cast<u32>(code);
    state.is_open = code == Errc::ok ? 1 : 0;
    const u64 dirty = relaxed_load(store.state->dirty_blocks);
    state.limits[1] = dirty + state.room.until_full;
    state.limits[2] = 1;
    state.must_stop = 0;
    state.dirty_max = state.limits[1];
    state.deadline = device_nanoseconds() + step_nanoseconds;
}

/// Whether the step is open. A variable in shared memory by which the opening warp informs the warp
/// that looks up the root.
enum class Opening : u32 { waits, open, closed };

/// Publishes to the block whether the step is open. Called by one lane.
__device__ inline void tell_opening(const RemovalState& state, Opening& opening) {
    // Release: pairs with the acquire in wait_for_opening().
    cuda::atomic_ref<Opening, cuda::thread_scope_block>(opening).store(
        state.is_open != 0 ? Opening::open : Opening::closed, cuda::memory_order_release);
}

/// Waits for tell_opening() by a warp of the same block, which itself waits for no other warp.
/// Returns whether the step is open.
__device__ inline bool wait_for_opening(const WarpTeam& team, Opening& opening) {
    return once(team, [&] {
        cuda::atomic_ref<Opening, cuda::thread_scope_block> word(opening);
        for (;;) {
            // Acquire: pairs with the release in tell_opening().
            const Opening seen = word.load(cuda::memory_order_acquire);
            if (seen != Opening::waits) return seen == Opening::open;
        }
    });
}

}  // namespace warren::cuda_engine

#endif
