// SPDX-License-Identifier: Apache-2.0
// Memory that is taken before anybody asks for it. All of it by one thread, in the order in which
// it is likely to be wanted: a driver pins memory for one at a time, and two that ask by turns are
// both late.
//
// Invariant: nothing is taken after the end of this.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "base/out_of_memory.hpp"

namespace warren::cuda_engine {

class MemoryAhead {
 public:
    /// Takes the memory, and little more of it once `must_stop`.
    using Take = std::function<void(const std::atomic<bool>& must_stop)>;

    MemoryAhead() = default;
    ~MemoryAhead() {
        // Relaxed: a request; the join is what orders.
        must_stop_.store(true, std::memory_order_relaxed);
        if (taking_.joinable()) taking_.join();
    }
    MemoryAhead(const MemoryAhead&) = delete;
    MemoryAhead& operator=(const MemoryAhead&) = delete;

    /// Calls `take` in the thread, where there is one to be had: else who needs memory takes it by
    /// himself, as he does who comes first. Once.
    void start(Take take) {
        static_cast<void>(or_no_memory([&] {
            taking_ = std::thread([this, take = std::move(take)] { take(must_stop_); });
            return Errc::ok;
        }));
    }

 private:
    std::atomic<bool> must_stop_{false};
    std::thread taking_;
};

}  // namespace warren::cuda_engine
