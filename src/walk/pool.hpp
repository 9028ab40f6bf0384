// SPDX-License-Identifier: Apache-2.0
// The queues of the workers of one process. A worker takes the youngest of its own items, so that
// it stays where it is and what waits is small; an idle one takes the oldest of another's, which
// are the largest subtrees.
//
// Invariant: an item is in one queue or in the hands of one worker. A worker sleeps only if all
// queues were empty after it had said that it sleeps.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "warren/walk.hpp"

namespace warren::walk {

struct Node;
struct Payload;

/// A directory to open or to go on reading; or, with a payload, work that belongs to one.
struct Item {
    Node* node = nullptr;
    Payload* payload = nullptr;
};

class Pool {
 public:
    Pool(u32 workers, Split split);

    u32 workers() const { return static_cast<u32>(queues_.size()); }
    /// Requires: `worker` is the caller's own number.
    void push(u32 worker, Item item);
    /// The next item for the worker, waiting for one if need be; false when the pool is closed.
    bool take(u32 worker, Item& item);
    /// Wakes everybody: there will be no more items.
    void close();
    /// Runs `work(number)` on the caller, and on further threads once there is something for them.
    void run(const std::function<void(u32)>& work);
    u64 queued() const { return queued_.load(std::memory_order_relaxed); }

 private:
    struct alignas(64) Queue {
        std::mutex mutex;
        std::deque<Item> items;
        std::atomic<u32> size{0};
    };

    bool take_own(Queue& queue, Item& item);
    bool steal(u32 worker, Random& random, Item& item);
    bool anything_queued() const;
    bool wake_one();
    void start_thread();

    std::vector<Queue> queues_;
    Split split_;
    std::atomic<u64> queued_{0};
    std::atomic<u32> sleeping_{0};
    std::atomic<bool> closed_{false};
    std::atomic<u32> started_{1};
    std::mutex mutex_;  // threads_, and sleeping on wake_
    std::condition_variable wake_;
    std::vector<std::thread> threads_;
    std::function<void(u32)> work_;
};

}  // namespace warren::walk
