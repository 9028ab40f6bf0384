// SPDX-License-Identifier: Apache-2.0
// What a bulk step that removes a tree shares among its warps: its limits, its lists, its queue.
//
// Invariant: a directory that was taken out of its parent is in the queue, in the list of those
// that outlive the step, or freed.
#pragma once

#include "fs/engine/cuda/tree_removal.hpp"
#include "fs/ops/harvest_tree.hpp"
#include "team/warp_team.hpp"

#if defined(__CUDACC__)

namespace warren::cuda_engine {

__device__ inline u64 device_nanoseconds() {
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

/// What Harvester asks of the step, on the device.
struct DeviceStep {
    const core::Store& store;
    const RemovalRef& ref;
    ops::LaneRules rules;

    WARREN_HD bool is_full(const WarpTeam& team) const {
#if defined(__CUDA_ARCH__)
        return once(team, [&] {
            const RemovalState& state = *ref.state;
            const bool is_wide = relaxed_load(state.loose) > state.loose_limit;
            const bool is_dirty = relaxed_load(store.state->dirty_blocks) >= state.dirty_limit;
            return is_wide || is_dirty || relaxed_load(state.error) != 0 ||
                   relaxed_load(state.is_narrow) != 0 || device_nanoseconds() > state.deadline;
        });
#else
        return team.is_leader();
#endif
    }
    WARREN_HD bool push(const WarpTeam& team, bool mine, const ops::TreeTask& task) const {
        const bool is_directory = task.kind() == ops::TreeTask::directory_kind;
        const u32 votes = team.ballot(mine && is_directory);
        if (!ref.queue.push(team, mine, task)) {
            if (votes == 0) return false;
            // A full queue spills: the next step begins with these.
            if (mine) set_aside(task, false);
        }
        if (votes != 0) {
            once(team, [&] {
                device_atomic<u64>(ref.state->loose)
                    .fetch_add(static_cast<u64>(hd::popcount(votes)), hd::memory_order_relaxed);
            });
        }
        return true;
    }
    WARREN_HD bool is_listed(u64 number) const {
        if (ref.state->is_listing == 0) return false;
        const u32 rank = ref.listing.ranks[number / format::inodes_per_frame];
        if (rank >= TreeListing::frames_max) return false;
        const u64 index = u64{rank} * format::inodes_per_frame + number % format::inodes_per_frame;
        return ref.listing.reached[index] != 0;
    }
    WARREN_HD void set_aside(const ops::TreeTask& task, bool was_looked_through) const {
        const u32 index =
            device_atomic<u32>(ref.state->unfinished_count).fetch_add(1, hd::memory_order_relaxed);
        WARREN_CHECK(index < ref.list_max);
        ref.unfinished[index] = task.subject | (was_looked_through ? looked_through : 0);
    }
    WARREN_HD void freed(const ops::TreeTask& task) const {
        if (!task.is_rooted()) {
            device_atomic<u64>(ref.state->loose).fetch_sub(1, hd::memory_order_relaxed);
            return;
        }
        const u32 index =
            device_atomic<u32>(ref.state->freed_root_count).fetch_add(1, hd::memory_order_relaxed);
        WARREN_CHECK(index < ref.list_max);
        ref.freed_roots[index] = task.number();
    }
    WARREN_HD bool want(u64 place) const {
        const u32 index =
            device_atomic<u32>(ref.state->wanted_count).fetch_add(1, hd::memory_order_relaxed);
        if (index < ref.list_max) ref.wanted[index] = place;
        return false;
    }
    WARREN_HD void fail(Errc code) const {
        relaxed_store(ref.state->error, static_cast<u32>(code));
    }
    WARREN_HD void pause() const {
        pause_briefly();
    }
};

}  // namespace warren::cuda_engine

#endif
