// SPDX-License-Identifier: Apache-2.0
// The CPU engine's workers: bulk operations are queues of tasks, and all cores take from them. Each
// worker works on its own tasks last in, first out, which keeps queues short on trees; who runs dry
// takes half of the oldest tasks of another worker.
//
// Invariant: run() returns when every task, those that tasks added included, has been executed
// once. If one of them ran out of memory, run() throws std::bad_alloc then, on the caller's thread;
// if there is none for the first tasks, it throws before any of them.
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

/// What a queue holds: the meaning of the words is the operation's.
struct Task {
    u64 subject = 0;
    u64 place = 0;
    void* context = nullptr;
};

class ThreadPool {
 public:
    class Worker;
    /// Executes one task on the calling worker.
    using Body = std::function<void(Worker&, const Task&)>;

    /// `workers` threads in all, the caller of run() among them; 0 means one for each core.
    explicit ThreadPool(u32 workers);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    u32 width() const { return static_cast<u32>(workers_.size()); }
    /// Tasks of the present run that are queued or being executed.
    u64 pending() const { return pending_.load(std::memory_order_relaxed); }

    /// Executes `first` and all that comes of it. One run at a time; others wait for their turn. A
    /// run that a task starts is executed by its worker alone.
    void run(std::vector<Task> first, const Body& body);

    /// Waits until the thread pool is free and keeps it: for callers who must not wait for it in
    /// run() because those that have it might wait for them. run_in_turn() goes with it.
    [[nodiscard]] std::unique_lock<std::mutex> take_turn();
    /// As run(). Requires: the caller has the turn.
    void run_in_turn(std::vector<Task> first, const Body& body);

    /// Calls `body(team, index)` for each index below `count`, in chunks.
    void for_each(u64 count, const std::function<void(const ThreadTeam&, u64)>& body);

 private:
    void stop_threads();
    void hand_out(const std::vector<Task>& first);
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
    u64 round_ = 0;    // counts runs; a thread works on each once
    u32 working_ = 0;  // threads inside the present round
    bool stop_ = false;
    std::atomic<u64> pending_{0};       // tasks queued or being executed
    std::atomic<bool> ran_out_{false};  // of memory, in a task of this run
};

/// One worker of a thread pool, as tasks see it.
class ThreadPool::Worker {
 public:
    Worker(ThreadPool& thread_pool, u32 index) : thread_pool_(thread_pool), index_(index) {
        tasks_.reserve(tasks_usual);
    }

    ThreadTeam team() const { return ThreadTeam{index_}; }
    u32 index() const { return index_; }
    /// Adds a task to this worker's queue. Throws std::bad_alloc and adds nothing.
    void push(const Task& task);

 private:
    friend class ThreadPool;
    bool pop(Task& task);
    static constexpr u64 tasks_usual = 256;

    ThreadPool& thread_pool_;
    u32 index_;
    std::mutex mutex_;
    std::vector<Task> tasks_;
    std::vector<Task> kept_;  // stolen when there was no memory to queue them
};

}  // namespace warren
