// SPDX-License-Identifier: Apache-2.0
// The workers of the CPU engine, which execute the tasks of bulk operations. Each worker has a
// queue and takes its own tasks last in, first out, which keeps queues short on trees. A worker
// with an empty queue steals the older half of another worker's tasks.
//
// Invariant: run() returns when every task has been executed once, including those that tasks
// added. If a task ran out of memory, run() then throws std::bad_alloc on the caller's thread; if
// there is no memory for the first tasks, it throws before any of them is executed.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "team/team.hpp"
#include "warren/types.hpp"

namespace warren {

/// An element of a queue. The operation gives the words their meaning.
struct Task {
    u64 subject = 0;
    u64 place = 0;
};

class ThreadPool {
 public:
    class Worker;
    /// Executes one task on the calling worker.
    using Body = std::function<void(Worker&, const Task&)>;

    /// `workers` threads in all, including the caller of run(); 0 means one for each core.
    explicit ThreadPool(u32 workers);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    u32 width() const { return static_cast<u32>(workers_.size()); }
    /// How many tasks of the current run are queued or being executed.
    u64 pending() const { return pending_.load(std::memory_order_relaxed); }

    /// Executes `first` and all tasks that these add. One run at a time; other callers wait for
    /// their turn. A run that a task starts is executed by that task's worker alone.
    void run(std::vector<Task> first, const Body& body);

    /// Waits until no run is under way, and reserves the pool for the caller's run_in_turn(). For a
    /// caller that will hold something for which the current run may wait, so that it must not
    /// wait for the pool later.
    [[nodiscard]] std::unique_lock<std::mutex> take_turn();
    /// As take_turn(), without waiting: false if another thread has the pool.
    [[nodiscard]] bool try_turn(std::unique_lock<std::mutex>& turn);
    /// As run(). Requires: the caller holds the lock of take_turn() or try_turn().
    void run_in_turn(std::vector<Task> first, const Body& body);

    /// Calls `body(team, index)` for each index below `count`, in chunks.
    void for_each(u64 count, const std::function<void(const ThreadTeam&, u64)>& body);
    /// As for_each(), on the calling thread alone if another run is under way or there is no memory
    /// for one: it throws nothing that `body` does not throw.
    void for_each_at_once(u64 count, const std::function<void(u64)>& body);

 private:
    void stop_threads();
    std::vector<Task> ranges(u64 count) const;
    void reserve_queues(std::size_t tasks);
    void execute(Worker& self, const Task& task, const Body& body);
    void work_until_done(Worker& self, const Body& body);
    void run_alone(u32 index, const std::vector<Task>& first, const Body& body);
    bool steal(Worker& self, Task& task);
    void thread_main(Worker& self);

    std::vector<std::unique_ptr<Worker>> workers_;
    std::vector<std::thread> threads_;
    std::mutex run_mutex_;

    std::mutex mutex_;
    std::condition_variable wake_;
    std::condition_variable idle_;
    const Body* body_ = nullptr;
    u64 round_ = 0;    // counts runs; a thread takes part in each once
    u32 working_ = 0;  // threads that take part in the current run
    bool stop_ = false;
    std::atomic<u64> pending_{0};       // tasks queued or being executed
    std::atomic<bool> ran_out_{false};  // a task of this run ran out of memory
};

/// One worker of a thread pool, as passed to tasks.
class ThreadPool::Worker {
 public:
    Worker(ThreadPool& thread_pool, u32 index) : thread_pool_(thread_pool), index_(index) {
        tasks_.reserve(tasks_usual);
    }

    ThreadTeam team() const { return ThreadTeam{index_}; }
    u32 index() const { return index_; }
    /// Adds a task to this worker's queue. If it throws std::bad_alloc, nothing was added.
    void push(const Task& task);

 private:
    friend class ThreadPool;
    bool pop(Task& task);
    static constexpr u64 tasks_usual = 256;

    ThreadPool& thread_pool_;
    u32 index_;
    std::mutex mutex_;
    std::vector<Task> tasks_;
};

}  // namespace warren
