// SPDX-License-Identifier: Apache-2.0
// The queues of the workers of one process. A worker takes the youngest of its own items, so that
// it stays where it is and what waits is small; an idle one takes the oldest of another's, which
// are the largest subtrees, and so does another rank.
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
    directory,    // to open, or to go on reading
    task,         // that a callback added; the payload is its bytes
    names,        // a part of the directory that another rank has read; as getdents64(2) wrote it
    merge,        // a result came back from another rank; the payload is its bytes
    link_answers  // of another rank, to a query about files with several names
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
    /// Requires: `worker` is the caller's own number, or the caller is no worker. Without memory it
    /// throws, and nothing is queued.
    void push(u32 worker, Item item);
    /// Queues what must be done in this process, and before all else. Without memory as push().
    void push_here(Item item);
    /// The next item for the worker, waiting for one if need be; false when the pool is closed.
    bool take(u32 worker, Item& item);
    /// Call when an item that was taken is done with all that it has queued; `counts`: as one of
    /// items_done().
    void done(bool counts = true);
    /// Wakes all workers: there will be no more items.
    void close();
    /// Runs `work(number)` on the caller, and on further threads once there is something for them.
    void run(const std::function<void(u32)>& work);
    /// The same with all workers on threads of their own, while the caller does `lead`.
    void run(const std::function<void(u32)>& work, const std::function<void()>& lead);

    /// Takes the oldest items, a part of them as `split` says (all, if it says nothing) but no more
    /// than `most`, and leaves `kept` of them; nothing that was pushed here.
    std::vector<Item> take_part(std::optional<Split> split, Random& random, u64 most, u64 kept);
    /// Puts items back as the oldest ones.
    void put_back(std::span<const Item> items);
    /// Items that wait and could be given away.
    u64 queued() const { return queued_.load(std::memory_order_relaxed); }
    /// Items that wait or are being worked on. At 0 new items can come only from other ranks.
    u64 unfinished() const {
        // Acquire: the partner is done().
        return unfinished_.load(std::memory_order_acquire);
    }
    u64 in_hand() const {
        // Sequentially consistent: the partners are done() and take_any().
        return in_hand_.load(std::memory_order_seq_cst);
    }
    u64 items_done() const { return items_done_.load(std::memory_order_relaxed); }

    /// Begins with something in hand, for which done() is to be called. Before run().
    void take_in_hand() {
        unfinished_.fetch_add(1, std::memory_order_relaxed);
        in_hand_.fetch_add(1, std::memory_order_relaxed);
    }
    /// Called when no item is unfinished or, with a gate, when none is in hand; from any thread.
    void set_idle_callback(std::function<void()> callback) { idle_callback_ = std::move(callback); }
    /// From now on items are taken only as grant() allows it.
    void set_gate() { gated_ = true; }
    void grant(i64 items);
    /// Stops the workers: nothing is begun but what was pushed here, or nothing at all.
    enum class Halt : u8 { none, queues, all };
    void halt(Halt halt);
    /// All items there are, while the workers are stopped and nothing is in hand.
    std::vector<Item> all_items() const;
    /// Whether some of what was granted has not been taken.
    bool has_granted() const {
        // Acquire: the partner is take_grant().
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
    std::mutex mutex_;  // threads_, and sleeping on wake_
    std::condition_variable wake_;
    std::vector<std::thread> threads_;
    std::function<void(u32)> work_;
};

}  // namespace warren::walk
