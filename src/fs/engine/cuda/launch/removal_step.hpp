// SPDX-License-Identifier: Apache-2.0
// The limits, lists and queue that the warps of a bulk step share while they remove a tree.
//
// Invariant: a directory that was detached from its parent is in the queue, in the list of
// unfinished directories, in that of emptied roots, or freed.
#pragma once

#include "fs/bulk/remove_tree/reclaim_tree.hpp"
#include "fs/engine/cuda/device_clock.hpp"
#include "fs/engine/cuda/launch/tree_removal.hpp"
#include "fs/engine/cuda/shared_memory.cuh"
#include "team/warp_team.hpp"

#if defined(__CUDACC__)

namespace warren::cuda_engine {

/// The step as TreeReclaimer uses it, on the device.
struct DeviceStep {
    const core::Store& store;
    const RemovalRef& ref;
    ops::LaneRules rules;
    u64 detached_max = detached_unbounded;

    /// Whether the step must end. Each of three lanes checks one reason, so that the loads overlap.
    WARREN_HD bool is_full(const WarpTeam& team) const {
        RemovalState& state = *ref.state;
#if defined(__CUDA_ARCH__)
        const bool is_late = ++looks_ % looks_for_time == 0 &&
                             device_nanoseconds() > state.deadline && team.is_leader();
        if (is_late) relaxed_store(state.must_stop, 1);
#endif
        const u32 lane = team.lane();
        u64& word = lane == 0   ? state.detached
                    : lane == 1 ? store.state->dirty_blocks
                                : state.must_stop;
        return team.ballot(relaxed_load(word) >= state.limits[lane < 2 ? lane : 2]) != 0;
    }
    WARREN_HD bool push(const WarpTeam& team, bool mine, const ops::TreeTask& task) const {
        const bool is_directory = task.kind() == ops::TreeTask::directory_kind;
        const u32 votes = team.ballot(mine && is_directory);
        if (votes != 0 && !count_detached(team, static_cast<u64>(hd::popcount(votes))))
            return false;
        if (!ref.queue.push(team, mine, task)) {
            if (votes == 0) return false;
            // The queue is full: these directories are left to the next step.
            if (mine) set_aside(task, false);
        }
        return true;
    }
    WARREN_HD bool is_listed(u64 number, u64 in) const {
        if (ref.state->is_listing == 0) return false;
        const u32 index = ref.listing.index_of(store, number);
        const u32 above = ref.listing.index_of(store, in);
        return index != TreeListing::rank_none && above != TreeListing::rank_none &&
               ref.listing.reached[index] != 0 && ref.listing.parents[index] == above;
    }
    WARREN_HD void set_aside(const ops::TreeTask& task, bool has_leftovers) const {
        const u32 index = relaxed_add(ref.state->unfinished_count, 1);
        WARREN_CHECK(index < ref.list_max);
        ref.unfinished[index] = task.subject | (has_leftovers ? leftovers_only : 0);
    }
    WARREN_HD void freed(const ops::TreeTask& /*task*/) const {
        device_atomic<u64>(ref.state->detached).fetch_sub(1, hd::memory_order_relaxed);
    }
    WARREN_HD void emptied(const ops::TreeTask& task) const {
        const u32 index = relaxed_add(ref.state->emptied_count, 1);
        WARREN_CHECK(index < ref.list_max);
        ref.emptied[index] = task.number();
    }
    WARREN_HD bool want(u64 place) const {
        const u32 index = relaxed_add(ref.state->wanted_count, 1);
        if (index < ref.list_max) ref.wanted[index] = place;
        return false;
    }
    WARREN_HD void fail(Errc code) const {
        relaxed_store(ref.state->error, static_cast<u32>(code));
        relaxed_store(ref.state->must_stop, 1);
    }
    WARREN_HD void pause() const {
        pause_briefly();
    }
    /// Tells the compiler that the store lies in shared memory. Requires: it does, as the one does
    /// that the kernel passes to TreeReclaimer.
    WARREN_HD const core::Store& near(const core::Store& where) const {
#if defined(__CUDA_ARCH__)
        return in_shared_memory(where);
#else
        return where;
#endif
    }

    mutable u32 looks_ = 0;  // number of calls of is_full()

 private:
    static constexpr u32 looks_for_time = 16;  // calls per reading of the clock, which is slow

    /// Counts `count` directories as detached. False if the orphan directory has no room for them,
    /// in case that they are left over.
    WARREN_HD bool count_detached(const WarpTeam& team, u64 count) const {
        device_atomic<u64> detached(ref.state->detached);
        if (detached_max == detached_unbounded) {
            once(team, [&] { detached.fetch_add(count, hd::memory_order_relaxed); });
            return true;
        }
        return once(team, [&] {
            if (detached.fetch_add(count, hd::memory_order_relaxed) + count <= detached_max)
                return true;
            detached.fetch_sub(count, hd::memory_order_relaxed);
            return false;
        });
    }
};

}  // namespace warren::cuda_engine

#endif
