// SPDX-License-Identifier: Apache-2.0
// The work queue of a bulk command, in the engine's memory: a ring of tasks of 16 bytes. A worker
// draws a ticket and polls only the slot of that ticket, so idle workers do not contend. A team
// adds all its tasks with a single fetch-and-add of tickets. The run ends when the count of
// unfinished tasks drops to zero.
//
// Invariant: a slot holds a task from the moment a writer has stored `subject` until a reader has
// taken it. A task for which there is no room is refused, never lost.
#pragma once

#include "base/host_device.hpp"
#include "fs/bulk/tree_task.hpp"
#include "team/team.hpp"

#if !defined(__CUDA_ARCH__)
#include <thread>
#endif

namespace warren::bulk {

/// Waits for a moment: a CPU thread yields, a thread of a GPU sleeps.
WARREN_HD inline void pause_briefly() {
#if defined(__CUDA_ARCH__)
    __nanosleep(40);
#else
    std::this_thread::yield();
#endif
}

/// The counters of a queue, each on a cache line of its own.
struct BulkQueueState {
    alignas(128) u64 taken;       // tickets drawn by readers
    alignas(128) u64 added;       // tickets drawn by writers
    alignas(128) u64 unfinished;  // tasks added and not finished
    alignas(128) u32 is_done;     // set when `unfinished` drops to zero
};

struct alignas(16) BulkSlot {
    u64 subject;  // 0: free
    u64 part;
};

/// A reference to a queue: its slots, all free at first, and its counters. Workers may wait before
/// there are any tasks: the start of a run counts as an unfinished task, which begin_over()
/// finishes.
struct BulkQueue {
    BulkSlot* slots = nullptr;
    u64 capacity = 0;  // a power of two
    u64 margin = 0;    // how many tasks all workers may add between two checks of the count
    BulkQueueState* state = nullptr;

    /// Prepares the next run. Requires: all slots are free and no worker runs. One lane.
    WARREN_HD void reset() const {
        relaxed_store(state->taken, 0);
        relaxed_store(state->added, 0);
        relaxed_store(state->unfinished, 1);
        relaxed_store(state->is_done, 0);
    }

    /// Whether a worker should split off more tasks. Always, because each task costs the same.
    WARREN_HD bool wants_more() const { return true; }

    /// Adds the tasks of the lanes that pass `mine`. Returns false to all lanes, and adds none, if
    /// there is no room. Collective.
    template <class Team>
    WARREN_HD bool push(const Team& team, bool mine, const ops::TreeTask& task) const {
        const u32 votes = team.ballot(mine);
        const u32 count = static_cast<u32>(hd::popcount(votes));
        if (count == 0) return true;
        const u64 first = once(team, [&]() -> u64 {
            device_atomic<u64> unfinished(state->unfinished);
            if (unfinished.load(hd::memory_order_relaxed) + margin > capacity) return ~u64{0};
            unfinished.fetch_add(count, hd::memory_order_relaxed);
            return relaxed_add(state->added, count);
        });
        if (first == ~u64{0}) return false;
        if (mine) {
            const u32 below = static_cast<u32>(hd::popcount(votes & ((u32{1} << team.lane()) - 1)));
            write(first + below, task);
        }
        return true;
    }

    /// Waits for the next task and takes it. False if all work is done. Collective.
    template <class Team>
    WARREN_HD bool pop(const Team& team, ops::TreeTask& task) const {
        task = once(team, [&] { return wait_for_task(); });
        return task.subject != 0;
    }

    /// Called once the first tasks have been added. Collective.
    template <class Team>
    WARREN_HD void begin_over(const Team& team) const {
        finish(team);
    }

    /// Called when a popped task is done and the tasks that it led to have been added. Collective.
    template <class Team>
    WARREN_HD void finish(const Team& team) const {
        team.sync();
        once(team, [&] {
            // Acquire and release: the worker that ends the run sees the effects of all tasks.
            device_atomic<u64> unfinished(state->unfinished);
            if (unfinished.fetch_sub(1, hd::memory_order_acq_rel) != 1) return;
            device_atomic<u32>(state->is_done).store(1, hd::memory_order_release);
        });
    }

    /// Adds a task before any worker starts. One lane.
    WARREN_HD void seed(const ops::TreeTask& task) const {
        relaxed_add(state->unfinished, 1);
        write(relaxed_add(state->added, 1), task);
    }

 private:
    WARREN_HD void write(u64 ticket, const ops::TreeTask& task) const {
        BulkSlot& slot = slots[ticket & (capacity - 1)];
        device_atomic<u64> subject(slot.subject);
        // Terminates: push() has checked that there is room, so some reader holds the ticket of the
        // task that is still in this slot, and takes it once it is complete. Acquire: pairs with
        // the release in wait_for_task(), after which the old task has been read.
        while (subject.load(hd::memory_order_acquire) != 0)
            pause_briefly();
        relaxed_store(slot.part, task.part);
        // Release: pairs with the acquire in wait_for_task().
        subject.store(task.subject, hd::memory_order_release);
    }

    /// Terminates: a worker that executes a task does not wait here, and the worker that finishes
    /// the last task sets is_done.
    WARREN_HD ops::TreeTask wait_for_task() const {
        const u64 ticket = relaxed_add(state->taken, 1);
        BulkSlot& slot = slots[ticket & (capacity - 1)];
        device_atomic<u64> subject(slot.subject);
        for (u32 look = 0;; ++look) {
            // Acquire: pairs with the release in write().
            const u64 found = subject.load(hd::memory_order_acquire);
            if (found != 0) {
                const ops::TreeTask task{found, relaxed_load(slot.part)};
                // Release: pairs with the acquire in write().
                subject.store(0, hd::memory_order_release);
                return task;
            }
            // Acquire: pairs with the release in finish().
            if (look % 4 == 3 &&
                device_atomic<u32>(state->is_done).load(hd::memory_order_acquire) != 0) {
                return {0, 0};
            }
            pause_briefly();
        }
    }
};

}  // namespace warren::bulk
