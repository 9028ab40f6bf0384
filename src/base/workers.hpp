// SPDX-License-Identifier: Apache-2.0
// Parallel work on the CPU's cores: threads that all run the same function and take their share
// from a common counter. Starting a thread takes about 20 us, so the threads live as long as their
// owner; run_once() starts and ends them within one call.
//
// Invariant: when run() returns, no thread is in the function, and none enters it later.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/processors.hpp"

namespace warren {

/// Divides [0, count) into ranges of `step`, which threads take one by one.
class Counter {
 public:
    Counter(u64 count, u64 step) : count_(count), step_(step) {}

    /// Takes the next range. Returns false if none is left.
    bool take(u64& first, u64& last) {
        first = next_.fetch_add(step_, std::memory_order_relaxed);
        if (first >= count_) return false;
        last = count_ - first < step_ ? count_ : first + step_;
        return true;
    }

 private:
    u64 count_;
    u64 step_;
    std::atomic<u64> next_{0};
};

class Workers {
 public:
    using Work = std::function<void(u32 worker)>;

    /// The calling thread counts as one of `threads`; 0 means one per processor this process may
    /// use.
    explicit Workers(u32 threads) : threads_(threads != 0 ? threads : usable_processors()) {}
    ~Workers() { end(); }
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;

    u32 threads() const { return threads_; }

    /// Calls work(0) on the calling thread, and work(worker), with a number below threads(), on
    /// each thread that wakes up before run() ends. A thread that wakes up too late, or cannot be
    /// started, takes no part, so the work must be divided dynamically. An exception on any of the
    /// threads is rethrown here once all have returned.
    void run(const Work& work) { run(work, true); }

    /// Divides [0, count) into ranges of `step`. A single range is processed without waking other
    /// threads.
    void run_ranges(u64 count, u64 step,
                    const std::function<void(u64 first, u64 last, u32 worker)>& work) {
        if (count <= step) {
            if (count != 0) work(0, count, 0);
            return;
        }
        Counter counter(count, step);
        run([&](u32 worker) {
            for (u64 first = 0, last = 0; counter.take(first, last);)
                work(first, last, worker);
        });
    }

    /// Like run(), for the owner's last call: the threads end by themselves.
    void run_last(const Work& work) { run(work, false); }

 private:
    void run(const Work& work, bool keeps_threads) {
        if (threads_ == 1) return work(0);
        {
            const std::lock_guard lock(mutex_);
            work_ = &work;
            failure_ = nullptr;
            ++round_;
            ends_ = !keeps_threads;
        }
        if (!others_.empty()) wake_.notify_all();
        start_threads();
        call(work, 0);
        std::unique_lock lock(mutex_);
        work_ = nullptr;
        done_.wait(lock, [this] { return busy_ == 0; });
        if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
    }

    /// Calls `work` and keeps the first exception.
    void call(const Work& work, u32 worker) {
        try {
            work(worker);
        } catch (...) {
            const std::lock_guard lock(mutex_);
            if (failure_ == nullptr) failure_ = std::current_exception();
        }
    }

    void start_threads() {
        try {
            while (others_.size() + 1 < threads_) {
                const u32 worker = static_cast<u32>(others_.size()) + 1;
                others_.emplace_back([this, worker] { serve(worker); });
            }
        } catch (const std::system_error&) {
            // The threads that did start share the work.
        } catch (const std::bad_alloc&) {
            // As above.
        }
    }

    void serve(u32 worker) {
        u64 seen = 0;
        std::unique_lock lock(mutex_);
        while (true) {
            const auto has_work = [&] { return work_ != nullptr && round_ != seen; };
            wake_.wait(lock, [&] { return ends_ || has_work(); });
            if (!has_work()) return;
            const Work& work = *work_;
            seen = round_;
            ++busy_;
            lock.unlock();
            call(work, worker);
            lock.lock();
            if (--busy_ == 0) done_.notify_one();
        }
    }

    void end() {
        {
            const std::lock_guard lock(mutex_);
            ends_ = true;
        }
        wake_.notify_all();
        for (std::thread& other : others_)
            other.join();
    }

    u32 threads_;
    std::vector<std::thread> others_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::condition_variable done_;
    const Work* work_ = nullptr;  // null: no run() is in progress
    std::exception_ptr failure_;
    u64 round_ = 0;
    u32 busy_ = 0;
    bool ends_ = false;
};

/// Runs `work` on `threads` threads including the calling one, which exist only for this call.
inline void run_once(u32 threads, const Workers::Work& work) {
    if (threads == 1) return work(0);
    Workers(threads).run_last(work);
}

}  // namespace warren
