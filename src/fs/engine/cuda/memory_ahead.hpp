// SPDX-License-Identifier: Apache-2.0
// Allocates memory in the background before a caller needs it. One thread allocates all of it, in
// the order in which it is likely to be needed: the driver pins memory for one thread at a time,
// so two threads would only delay each other.
//
// Invariant: nothing is allocated after the destructor has returned.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "base/out_of_memory.hpp"

namespace warren::cuda_engine {

class MemoryAhead {
 public:
    /// Allocates the memory; returns soon after `must_stop` has become true.
    using Take = std::function<void(const std::atomic<bool>& must_stop)>;

    MemoryAhead() = default;
    ~MemoryAhead() {
        // Relaxed: it is only a request; join() orders memory.
        must_stop_.store(true, std::memory_order_relaxed);
        if (taking_.joinable()) taking_.join();
    }
    MemoryAhead(const MemoryAhead&) = delete;
    MemoryAhead& operator=(const MemoryAhead&) = delete;

    /// Calls `take` in the thread. If the thread cannot be started, callers allocate the memory
    /// when they need it, as they do if they come before the thread. Call it once.
    void start(Take take) {
        static_cast<void>(or_no_memory(
            [&] { taking_ = std::thread([this, take = std::move(take)] { take(must_stop_); }); }));
    }

 private:
    std::atomic<bool> must_stop_{false};
    std::thread taking_;
};

}  // namespace warren::cuda_engine
