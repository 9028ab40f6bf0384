// SPDX-License-Identifier: Apache-2.0
// Items are directories that take microseconds each, so a mutex for each queue has no measurable
// cost. Threads are started when the first item waits for one: a small tree needs none.
#include "walk/pool.hpp"

#include <algorithm>
#include <new>
#include <span>
#include <system_error>

namespace warren::walk {

namespace {

constexpr u32 steal_most = 256;    // items per call
constexpr u32 rounds_awake = 100;  // searches of all queues before a worker sleeps

}  // namespace

Pool::Pool(u32 workers, Split split) : queues_(workers), split_(split) {}

void Pool::insert(Queue& queue, Item item) {
    std::lock_guard lock(queue.mutex);
    queue.items.push_back(item);
    // Sequentially consistent: pairs with anything_queued().
    queue.size.store(static_cast<u32>(queue.items.size()), std::memory_order_seq_cst);
}

void Pool::push(u32 worker, Item item) {
    // Relaxed: the caller has an item in hand, or is the thread that reads these numbers.
    unfinished_.fetch_add(1, std::memory_order_relaxed);
    queued_.fetch_add(1, std::memory_order_relaxed);
    try {
        insert(queues_[worker], item);
    } catch (const std::bad_alloc&) {
        queued_.fetch_sub(1, std::memory_order_relaxed);
        unfinished_.fetch_sub(1, std::memory_order_relaxed);
        throw;
    }
    if (!wake_one() && started_.load(std::memory_order_relaxed) < queues_.size()) {
        start_thread();
    }
}

void Pool::push_here(Item item) {
    unfinished_.fetch_add(1, std::memory_order_relaxed);
    try {
        insert(here_, item);
    } catch (const std::bad_alloc&) {
        unfinished_.fetch_sub(1, std::memory_order_relaxed);
        throw;
    }
    wake_one();
}

void Pool::done(bool counts) {
    if (counts) items_done_.fetch_add(1, std::memory_order_relaxed);
    // Release: a thread that sees that nothing is in hand or unfinished also sees what was done.
    const bool hand_is_empty = in_hand_.fetch_sub(1, std::memory_order_acq_rel) == 1;
    const bool was_last = unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1;
    if (idle_callback_ && (was_last || (gated_ && hand_is_empty))) idle_callback_();
}

void Pool::grant(i64 items) {
    granted_.store(items, std::memory_order_relaxed);
    {
        std::lock_guard lock(mutex_);  // so that no worker is between its last check and sleeping
    }
    wake_.notify_all();
}

bool Pool::wake_one() {
    // Sequentially consistent: pairs with anything_queued().
    if (sleeping_.load(std::memory_order_seq_cst) == 0) return false;
    std::lock_guard lock(mutex_);
    wake_.notify_one();
    return true;
}

void Pool::start_thread() {
    std::lock_guard lock(mutex_);
    const u32 number = started_.load(std::memory_order_relaxed);
    // Acquire: pairs with close().
    if (number == queues_.size() || closed_.load(std::memory_order_acquire)) return;
    started_.store(number + 1, std::memory_order_relaxed);
    // If the system refuses another thread, or memory for it, the existing threads do the work.
    try {
        threads_.emplace_back([this, number] { work_(number); });
    } catch (const std::system_error&) {
        started_.store(number, std::memory_order_relaxed);
        if (number == 0) throw;
    } catch (const std::bad_alloc&) {
        started_.store(number, std::memory_order_relaxed);
        if (number == 0) throw;
    }
}

bool Pool::take_own(Queue& queue, Item& item) {
    if (queue.size.load(std::memory_order_relaxed) == 0) return false;
    std::lock_guard lock(queue.mutex);
    if (queue.items.empty()) return false;
    item = queue.items.back();
    queue.items.pop_back();
    queue.size.store(static_cast<u32>(queue.items.size()), std::memory_order_relaxed);
    return true;
}

/// Takes an item if the gate and a halt allow it.
bool Pool::take_any(u32 worker, Random& random, Item& item) {
    if (!anything_queued()) return false;
    // Counted before the item leaves the queue, so that every thread sees it in one place or the
    // other, and before halt_ is read. Sequentially consistent: pairs with halt(), which stores
    // halt_ before in_hand_ is read.
    in_hand_.fetch_add(1, std::memory_order_seq_cst);
    const Halt halt = halt_.load(std::memory_order_seq_cst);
    if (halt != Halt::all && take_own(here_, item)) return true;
    const bool may = halt == Halt::none && (!gated_ || take_grant());
    if (may && (take_own(queues_[worker], item) || steal(worker, random, item))) {
        queued_.fetch_sub(1, std::memory_order_relaxed);
        return true;
    }
    if (may && gated_) granted_.fetch_add(1, std::memory_order_relaxed);
    in_hand_.fetch_sub(1, std::memory_order_relaxed);
    return false;
}

/// Takes one of the granted items, if any is left.
bool Pool::take_grant() {
    i64 left = granted_.load(std::memory_order_relaxed);
    // Release: a thread that sees the grant taken also sees in_hand_; pairs with has_granted().
    while (left > 0 && !granted_.compare_exchange_weak(left, left - 1, std::memory_order_release,
                                                       std::memory_order_relaxed)) {
    }
    return left > 0;
}

void Pool::halt(Halt halt) {
    // Pairs with take_any(): either it sees the halt, or in_hand() counts the item that it takes.
    halt_.store(halt, std::memory_order_seq_cst);
    if (halt != Halt::none) return;
    std::lock_guard lock(mutex_);
    wake_.notify_all();
}

std::vector<Item> Pool::all_items() const {
    std::vector<Item> all(here_.items.begin(), here_.items.end());
    for (const Queue& queue : queues_)
        all.insert(all.end(), queue.items.begin(), queue.items.end());
    return all;
}

std::vector<Item> Pool::take_part(std::optional<Split> split, Random& random, u64 most, u64 kept) {
    std::vector<Item> part;
    for (Queue& queue : queues_) {
        std::lock_guard lock(queue.mutex);
        const u64 there = queue.items.size() - std::min<u64>(queue.items.size(), kept);
        kept -= queue.items.size() - there;
        if (there == 0 || part.size() == most) continue;
        u64 count = there;
        if (split) count = *split == Split::half ? (there + 1) / 2 : 1 + random.below(there);
        count = std::min<u64>(count, most - part.size());
        const auto end = queue.items.begin() + static_cast<i64>(count);
        part.insert(part.end(), queue.items.begin(), end);
        queue.items.erase(queue.items.begin(), end);
        queue.size.store(static_cast<u32>(queue.items.size()), std::memory_order_relaxed);
    }
    queued_.fetch_sub(part.size(), std::memory_order_relaxed);
    unfinished_.fetch_sub(part.size(), std::memory_order_relaxed);
    return part;
}

void Pool::put_back(std::span<const Item> items) {
    if (items.empty()) return;
    unfinished_.fetch_add(items.size(), std::memory_order_relaxed);
    queued_.fetch_add(items.size(), std::memory_order_relaxed);
    {
        Queue& queue = queues_[0];
        std::lock_guard lock(queue.mutex);
        queue.items.insert(queue.items.begin(), items.begin(), items.end());
        queue.size.store(static_cast<u32>(queue.items.size()), std::memory_order_seq_cst);
    }
    wake_one();
}

bool Pool::steal(u32 worker, Random& random, Item& item) {
    const u32 count = workers();
    const u32 first = static_cast<u32>(random.below(count));
    for (u32 offset = 0; offset < count; ++offset) {
        const u32 victim = (first + offset) % count;
        Queue& queue = queues_[victim];
        if (victim == worker || queue.size.load(std::memory_order_relaxed) == 0) continue;
        const u64 taken = take_from(queue, queues_[worker], random, item);
        if (taken > 1) wake_one();
        if (taken > 0) return true;
    }
    return false;
}

/// Takes the oldest items of another queue, the first into `item`, the others into `own`. Returns
/// their number.
u64 Pool::take_from(Queue& queue, Queue& own, Random& random, Item& item) {
    std::scoped_lock lock(queue.mutex, own.mutex);
    const u64 there = queue.items.size();
    if (there == 0) return 0;
    u64 part = split_ == Split::half ? (there + 1) / 2 : 1 + random.below(there);
    part = std::min<u64>(part, steal_most);
    const auto begin = queue.items.begin();
    try {
        own.items.insert(own.items.begin(), begin + 1, begin + static_cast<i64>(part));
    } catch (const std::bad_alloc&) {
        part = 1;  // for one item there is room in `item`
    }
    item = queue.items.front();
    queue.items.erase(begin, begin + static_cast<i64>(part));
    queue.size.store(static_cast<u32>(queue.items.size()), std::memory_order_relaxed);
    own.size.store(static_cast<u32>(own.items.size()), std::memory_order_seq_cst);
    return part;
}

bool Pool::anything_queued() const {
    // Sequentially consistent: either this thread sees the size that a push has stored, or the
    // pushing thread sees sleeping_.
    const auto has_items = [](const Queue& queue) {
        return queue.size.load(std::memory_order_seq_cst) > 0;
    };
    const Halt halt = halt_.load(std::memory_order_relaxed);
    if (has_items(here_) && halt != Halt::all) return true;
    const bool may =
        halt == Halt::none && (!gated_ || granted_.load(std::memory_order_relaxed) > 0);
    return may && std::any_of(queues_.begin(), queues_.end(), has_items);
}

bool Pool::take(u32 worker, Item& item) {
    Random random(worker * 0x9e3779b9u + queued_.load(std::memory_order_relaxed));
    u32 rounds = 0;
    // Acquire: pairs with close().
    while (!closed_.load(std::memory_order_acquire)) {
        if (take_any(worker, random, item)) return true;
        // With a gate the next item depends on a message. Polling for it would only delay it if
        // there are more threads than cores.
        if (!gated_ && ++rounds < rounds_awake) {
            std::this_thread::yield();
            continue;
        }
        std::unique_lock lock(mutex_);
        sleeping_.fetch_add(1, std::memory_order_seq_cst);
        if (!anything_queued() && !closed_.load(std::memory_order_acquire)) wake_.wait(lock);
        sleeping_.fetch_sub(1, std::memory_order_relaxed);
        rounds = 0;
    }
    return false;
}

void Pool::close() {
    std::lock_guard lock(mutex_);
    // Release: a thread that sees the pool closed also sees what was done before.
    closed_.store(true, std::memory_order_release);
    wake_.notify_all();
}

void Pool::run(const std::function<void(u32)>& work) {
    work_ = work;
    work_(0);
    join();
}

void Pool::run(const std::function<void(u32)>& work, const std::function<void()>& lead) {
    work_ = work;
    started_.store(0, std::memory_order_relaxed);
    start_thread();
    lead();
    join();
}

void Pool::join() {
    std::vector<std::thread> threads;
    {
        std::lock_guard lock(mutex_);
        threads.swap(threads_);
    }
    for (std::thread& thread : threads)
        thread.join();
}

}  // namespace warren::walk
