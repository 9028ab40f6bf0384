// SPDX-License-Identifier: Apache-2.0
// Guards the bytes of an extent of the file buffer: shared by readers, exclusive for a writer.
//
// Unlike std::shared_mutex it may be released by another thread than the one that took it, and a
// thread may hold any number of them: a reader never waits for a writer that itself waits.
#pragma once

#include <atomic>

#include "base/check.hpp"
#include "warren/types.hpp"

namespace warren {

class ContentLock {
 public:
    /// False if a writer has it.
    bool try_lock_shared() {
        u32 readers = state_.load(std::memory_order_relaxed);
        while (readers != writer) {
            WARREN_CHECK(readers + 1 != writer);
            // Pairs with the release in unlock().
            if (state_.compare_exchange_weak(readers, readers + 1, std::memory_order_acquire,
                                             std::memory_order_relaxed))
                return true;
        }
        return false;
    }
    void lock_shared() {
        while (!try_lock_shared())
            state_.wait(writer, std::memory_order_relaxed);
    }
    void unlock_shared() {
        // Pairs with the acquire in take(). Sequentially consistent as in unlock().
        if (state_.fetch_sub(1, std::memory_order_seq_cst) == 1) state_.notify_all();
    }
    void lock() {
        for (u32 holder = 0; !take(holder); holder = 0)
            state_.wait(holder, std::memory_order_relaxed);
    }
    void unlock() {
        // Pairs with the acquires in take() and try_lock_shared(). Sequentially consistent, so that
        // notify_all() looks for waiting threads after the store.
        state_.store(0, std::memory_order_seq_cst);
        state_.notify_all();
    }

 private:
    static constexpr u32 writer = ~u32{0};

    /// False if it is held: `holder` says by how many readers, or by a writer.
    bool take(u32& holder) {
        // Pairs with the releases in unlock_shared() and unlock().
        return state_.compare_exchange_strong(holder, writer, std::memory_order_acquire,
                                              std::memory_order_relaxed);
    }

    std::atomic<u32> state_{0};
};

}  // namespace warren
