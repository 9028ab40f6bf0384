// SPDX-License-Identifier: Apache-2.0
// The work queue of a bulk command in an engine's memory: tasks of 16 bytes in a ring. A worker
// takes a ticket and waits on that slot alone, so idle workers do not contend; a team adds all its
// tasks with one fetch of tickets. Work ends when the count of unfinished tasks is zero.
//
// Invariant: a slot holds a task from the moment its writer published `subject` until its reader
// took it; a task that does not fit is refused, never lost.
#pragma once

#include "base/host_device.hpp"
#include "fs/bulk/tree_task.hpp"
#include "team/team.hpp"

#if !defined(__CUDA_ARCH__)
#include <thread>
#endif

namespace warren::bulk {

/// Yields briefly to other threads.
WARREN_HD inline void pause_briefly() {
#if defined(__CUDA_ARCH__)
    __nanosleep(40);
#else
    std::this_thread::yield();
#endif
}

/// The words of a queue, on cache lines of their own.
struct BulkQueueState {
    alignas(128) u64 taken;       // tickets of readers
    alignas(128) u64 added;       // tickets of writers
    alignas(128) u64 unfinished;  // tasks added and not finished
    alignas(128) u32 is_done;     // set when it fell to zero
};

struct alignas(16) BulkSlot {
    u64 subject;  // 0: free
    u64 part;
};

/// A reference to a queue: slots, all free at the start, and its words. Workers may wait for tasks
/// before there are any: the start of a run counts as a task, which begin_over() ends.
struct BulkQueue {
    BulkSlot* slots = nullptr;
    u64 capacity = 0;  // a power of two
    u64 margin = 0;    // what all workers together may add between two checks of the count
    BulkQueueState* state = nullptr;

    /// Prepares the next run. Requires: all slots are free and no worker runs. One lane.
    WARREN_HD void reset() const {
        relaxed_store(state->taken, 0);
        relaxed_store(state->added, 0);
        relaxed_store(state->unfinished, 1);
        relaxed_store(state->is_done, 0);
    }

    /// Whether more tasks are useful: always, for each costs a worker the same.
    WARREN_HD bool wants_more() const { return true; }

    /// Adds the tasks of those lanes that say `mine`; false, for all, if there is no room.
    /// Collective.
    template <class Team>
    WARREN_HD bool push(const Team& team, bool mine, const ops::TreeTask& task) const {
        const u32 votes = team.ballot(mine);
        const u32 count = static_cast<u32>(hd::popcount(votes));
        if (count == 0) return true;
        const u64 first = once(team, [&]() -> u64 {
            device_atomic<u64> unfinished(state->unfinished);
            if (unfinished.load(hd::memory_order_relaxed) + margin > capacity) return ~u64{0};
            unfinished.fetch_add(count, hd::memory_order_relaxed);
            return device_atomic<u64>(state->added).fetch_add(count, hd::memory_order_relaxed);
        });
        if (first == ~u64{0}) return false;
        if (mine) {
            const u32 below = static_cast<u32>(hd::popcount(votes & ((u32{1} << team.lane()) - 1)));
            write(first + below, task);
        }
        return true;
    }

    /// Takes the next task, waiting for one. False if all work is done. Collective.
    template <class Team>
    WARREN_HD bool pop(const Team& team, ops::TreeTask& task) const {
        task = once(team, [&] { return wait_for_task(); });
        return task.subject != 0;
    }

    /// The first tasks are there. Collective.
    template <class Team>
    WARREN_HD void begin_over(const Team& team) const {
        finish(team);
    }

    /// A popped task is finished, with all that it added. Collective.
    template <class Team>
    WARREN_HD void finish(const Team& team) const {
        team.sync();
        once(team, [&] {
            // Acquire and release: the worker that ends the run sees all that tasks did.
            device_atomic<u64> unfinished(state->unfinished);
            if (unfinished.fetch_sub(1, hd::memory_order_acq_rel) != 1) return;
            device_atomic<u32>(state->is_done).store(1, hd::memory_order_release);
        });
    }

    /// Adds a task before any worker starts. One lane.
    WARREN_HD void seed(const ops::TreeTask& task) const {
        device_atomic<u64>(state->unfinished).fetch_add(1, hd::memory_order_relaxed);
        write(device_atomic<u64>(state->added).fetch_add(1, hd::memory_order_relaxed), task);
    }

 private:
    WARREN_HD void write(u64 ticket, const ops::TreeTask& task) const {
        BulkSlot& slot = slots[ticket & (capacity - 1)];
        device_atomic<u64> subject(slot.subject);
        // Terminates: there was room, so a reader has the ticket of the task still there, and takes
        // it once it is complete. Acquire: pairs with the release in wait_for_task(): the reader
        // has taken the old task.
        while (subject.load(hd::memory_order_acquire) != 0)
            pause_briefly();
        relaxed_store(slot.part, task.part);
        // Release: pairs with the acquire in wait_for_task().
        subject.store(task.subject, hd::memory_order_release);
    }

    /// Terminates: a worker with a task does not wait here, and the last one to finish sets
    /// is_done.
    WARREN_HD ops::TreeTask wait_for_task() const {
        const u64 ticket = device_atomic<u64>(state->taken).fetch_add(1, hd::memory_order_relaxed);
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
