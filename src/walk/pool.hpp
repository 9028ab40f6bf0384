// SPDX-License-Identifier: Apache-2.0
// The work queues of one process, one for each worker. A worker takes the youngest of its own
// items, so that it stays in one part of the tree and few items wait. An idle worker takes the
// oldest items of another, which are the largest subtrees; so does another rank.
//
// Invariant: an item is in one queue or in the hands of one worker, and unfinished() counts both. A
// worker sleeps only if all queues were empty after it had counted itself as sleeping.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "warren/walk.hpp"

namespace warren::walk {

struct Node;
struct Payload;

/// What is to be done with the node of an item.
enum class Work : u8 {
    directory,    // open it, or continue to read it
    task,         // run a task that a callback has queued; the payload is its bytes
    names,        // process a part of it that another rank has read; in the format of getdents64(2)
    merge,        // merge a result that another rank has returned; the payload is its bytes
    link_answers  // process another rank's answers to a query about files with several names
};

struct Item {
    Node* node = nullptr;
    Payload* payload = nullptr;
    Work work = Work::directory;
};

class Pool {
 public:
    Pool(u32 workers, Split split);

    u32 workers() const { return static_cast<u32>(queues_.size()); }
    /// Queues an item. Requires: `worker` is the caller's own number, or the caller is not a
    /// worker. If memory runs out it throws, and nothing is queued.
    void push(u32 worker, Item item);
    /// Queues an item that must be processed by this process, before all others. Throws like
    /// push().
    void push_here(Item item);
    /// Takes the next item for the worker, and waits for one if needed. Returns false when the pool
    /// is closed.
    bool take(u32 worker, Item& item);
    /// Called when an item that was taken is done, after everything it led to has been queued.
    /// `counts`: it counts as one of items_done().
    void done(bool counts = true);
    /// Wakes all workers: there will be no more items.
    void close();
    /// Runs `work(number)` on the calling thread, and on further threads once there are items for
    /// them.
    void run(const std::function<void(u32)>& work);
    /// Like the above, but runs all workers on threads of their own, and `lead` on the calling
    /// thread.
    void run(const std::function<void(u32)>& work, const std::function<void()>& lead);

    /// Takes the oldest items of each queue: the part given by `split`, or all without one, but at
    /// most `most`, and leaves `kept` items. Items of push_here() are not taken.
    std::vector<Item> take_part(std::optional<Split> split, Random& random, u64 most, u64 kept);
    /// Puts items back as the oldest ones.
    void put_back(std::span<const Item> items);
    /// The number of waiting items that could be given away.
    u64 queued() const { return queued_.load(std::memory_order_relaxed); }
    /// The number of items that wait or are being processed. At 0, new items can come only from
    /// other ranks.
    u64 unfinished() const {
        // Acquire: pairs with done().
        return unfinished_.load(std::memory_order_acquire);
    }
    u64 in_hand() const {
        // Sequentially consistent: pairs with done() and take_any().
        return in_hand_.load(std::memory_order_seq_cst);
    }
    u64 items_done() const { return items_done_.load(std::memory_order_relaxed); }

    /// Counts an item as in hand at the start, for which done() must be called. Called before
    /// run().
    void take_in_hand() {
        unfinished_.fetch_add(1, std::memory_order_relaxed);
        in_hand_.fetch_add(1, std::memory_order_relaxed);
    }
    /// Sets what is called, on any thread, when no item is unfinished or, with a gate, when none is
    /// in hand.
    void set_idle_callback(std::function<void()> callback) { idle_callback_ = std::move(callback); }
    /// After this, workers take items only as grant() allows it.
    void set_gate() { gated_ = true; }
    void grant(i64 items);
    /// Stops the workers from taking items: those of the queues, or also those of push_here().
    enum class Halt : u8 { none, queues, all };
    void halt(Halt halt);
    /// All items. Requires: the workers are halted and nothing is in hand.
    std::vector<Item> all_items() const;
    /// Whether some granted items have not been taken.
    bool has_granted() const {
        // Acquire: pairs with take_grant().
        return granted_.load(std::memory_order_acquire) > 0;
    }

 private:
    struct alignas(64) Queue {
        std::mutex mutex;
        std::deque<Item> items;
        std::atomic<u32> size{0};
    };

    void insert(Queue& queue, Item item);
    bool take_any(u32 worker, Random& random, Item& item);
    bool take_grant();
    bool take_own(Queue& queue, Item& item);
    bool steal(u32 worker, Random& random, Item& item);
    u64 take_from(Queue& queue, Queue& own, Random& random, Item& item);
    bool anything_queued() const;
    bool wake_one();
    void start_thread();
    void join();

    std::vector<Queue> queues_;
    Queue here_;
    Split split_;
    std::atomic<u64> queued_{0};
    std::atomic<u64> unfinished_{0};
    std::atomic<u64> in_hand_{0};
    std::atomic<u64> items_done_{0};
    std::atomic<i64> granted_{0};
    bool gated_ = false;
    std::atomic<Halt> halt_{Halt::none};
    std::function<void()> idle_callback_;
    std::atomic<u32> sleeping_{0};
    std::atomic<bool> closed_{false};
    std::atomic<u32> started_{1};
    std::mutex mutex_;  // guards threads_, and sleeping on wake_
    std::condition_variable wake_;
    std::vector<std::thread> threads_;
    std::function<void(u32)> work_;
};

}  // namespace warren::walk
