// SPDX-License-Identifier: Apache-2.0
// Threads sleep between runs. Within a run a worker that finds no task yields and tries again:
// tasks are short, so soon there will be another task or the run will end.
#include "fs/engine/cpu/thread_pool.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "base/on_exit.hpp"
#include "base/out_of_memory.hpp"
#include "base/processors.hpp"

namespace warren {
namespace {

/// The thread pool whose task this thread is executing, and the index of its worker.
thread_local const ThreadPool* working_for = nullptr;
thread_local u32 working_as = 0;

}  // namespace

void ThreadPool::Worker::push(const Task& task) {
    std::lock_guard lock(mutex_);
    tasks_.push_back(task);
    // No worker can take the task, and count it down again, before the lock is released.
    thread_pool_.pending_.fetch_add(1, std::memory_order_relaxed);
}

bool ThreadPool::Worker::pop(Task& task) {
    std::lock_guard lock(mutex_);
    if (tasks_.empty()) return false;
    task = tasks_.back();
    tasks_.pop_back();
    return true;
}

ThreadPool::ThreadPool(u32 workers) {
    if (workers == 0) workers = usable_processors();
    for (u32 i = 0; i < workers; ++i)
        workers_.push_back(std::make_unique<Worker>(*this, i));
    try {
        threads_.reserve(workers);
        for (u32 i = 1; i < workers; ++i)
            threads_.emplace_back([this, i] { thread_main(*workers_[i]); });
    } catch (...) {
        stop_threads();
        throw;
    }
}

ThreadPool::~ThreadPool() {
    stop_threads();
}

void ThreadPool::stop_threads() {
    {
        std::lock_guard lock(mutex_);
        stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_)
        thread.join();
}

void ThreadPool::run(std::vector<Task> first, const Body& body) {
    const auto turn = take_turn();
    run_in_turn(std::move(first), body);
}

std::unique_lock<std::mutex> ThreadPool::take_turn() {
    // A worker of this pool has the turn already: that of the run whose task it is executing.
    if (working_for == this) return {};
    return std::unique_lock(run_mutex_);
}

bool ThreadPool::try_turn(std::unique_lock<std::mutex>& turn) {
    if (working_for == this) return true;
    turn = std::unique_lock(run_mutex_, std::try_to_lock);
    return turn.owns_lock();
}

/// Executes a run on the calling worker. No other worker takes from its queue, so the run has ended
/// when the queue is empty.
void ThreadPool::run_alone(u32 index, const std::vector<Task>& first, const Body& body) {
    Worker self(*this, index);
    self.tasks_.reserve(first.size());
    for (const Task& task : first)
        self.push(task);
    bool ran_out = false;
    for (Task task; self.pop(task);) {
        if (or_no_memory([&] { body(self, task); }) != Errc::ok) ran_out = true;
        pending_.fetch_sub(1, std::memory_order_relaxed);
    }
    if (ran_out) throw std::bad_alloc();
}

/// Makes room for so many first tasks. Throws std::bad_alloc.
void ThreadPool::reserve_queues(std::size_t tasks) {
    for (const auto& worker : workers_)
        worker->tasks_.reserve(tasks / width() + 1);
}

void ThreadPool::run_in_turn(std::vector<Task> first, const Body& body) {
    if (working_for == this) return run_alone(working_as, first, body);
    reserve_queues(first.size());
    for (std::size_t i = 0; i < first.size(); ++i)
        workers_[i % width()]->push(first[i]);
    {
        std::lock_guard lock(mutex_);
        body_ = &body;
        ++round_;
    }
    wake_.notify_all();
    work_until_done(*workers_[0], body);
    std::unique_lock lock(mutex_);
    body_ = nullptr;
    idle_.wait(lock, [this] { return working_ == 0; });
    if (ran_out_.exchange(false, std::memory_order_relaxed)) throw std::bad_alloc();
}

void ThreadPool::execute(Worker& self, const Task& task, const Body& body) {
    if (or_no_memory([&] { body(self, task); }) != Errc::ok)
        ran_out_.store(true, std::memory_order_relaxed);
    // Release: pairs with the acquire in work_until_done(), so a thread that reads zero sees all
    // writes of the tasks.
    pending_.fetch_sub(1, std::memory_order_release);
}

/// Tasks that are ranges of indices below `count`.
std::vector<Task> ThreadPool::ranges(u64 count) const {
    const u64 chunk = std::max<u64>(1, count / (u64{width()} * 8));
    std::vector<Task> tasks;
    for (u64 at = 0; at < count; at += chunk) {
        tasks.push_back({at, std::min(at + chunk, count)});
    }
    return tasks;
}

void ThreadPool::for_each(u64 count, const std::function<void(const ThreadTeam&, u64)>& body) {
    run(ranges(count), [&](Worker& worker, const Task& task) {
        for (u64 i = task.subject; i < task.place; ++i)
            body(worker.team(), i);
    });
}

void ThreadPool::for_each_at_once(u64 count, const std::function<void(u64)>& body) {
    const auto run_range = [&](Worker&, const Task& task) {
        for (u64 i = task.subject; i < task.place; ++i)
            body(i);
    };
    std::unique_lock<std::mutex> turn;
    std::vector<Task> tasks;
    const auto prepare = [&] {
        tasks = ranges(count);
        reserve_queues(tasks.size());
    };
    const bool has_pool =
        working_for != this && try_turn(turn) && or_no_memory(prepare) == Errc::ok;
    if (has_pool) return run_in_turn(std::move(tasks), run_range);
    for (u64 i = 0; i < count; ++i)
        body(i);
}

void ThreadPool::thread_main(Worker& self) {
    u64 seen = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
        wake_.wait(lock, [&] { return stop_ || (round_ != seen && body_ != nullptr); });
        if (stop_) return;
        seen = round_;
        ++working_;
        const Body& body = *body_;  // stays valid: run() returns only after working_ is 0
        lock.unlock();
        work_until_done(self, body);
        lock.lock();
        if (--working_ == 0) idle_.notify_all();
    }
}

void ThreadPool::work_until_done(Worker& self, const Body& body) {
    // A task of one thread pool may start a run of another.
    const OnExit restore([pool = std::exchange(working_for, this),
                          worker = std::exchange(working_as, self.index())] {
        working_for = pool;
        working_as = worker;
    });
    Task task;
    for (;;) {
        if (self.pop(task) || steal(self, task)) {
            execute(self, task, body);
            continue;
        }
        // Acquire: pairs with the release in execute().
        if (pending_.load(std::memory_order_acquire) == 0) return;
        std::this_thread::yield();
    }
}

bool ThreadPool::steal(Worker& self, Task& task) {
    const u32 start = self.index_ + 1;
    for (u32 i = 0; i + 1 < width(); ++i) {
        Worker& victim = *workers_[(start + i) % width()];
        std::vector<Task> taken;
        {
            std::unique_lock lock(victim.mutex_, std::try_to_lock);
            if (!lock.owns_lock() || victim.tasks_.empty()) continue;
            const std::size_t half = (victim.tasks_.size() + 1) / 2;
            const auto end = victim.tasks_.begin() + static_cast<std::ptrdiff_t>(half);
            try {
                taken.assign(victim.tasks_.begin(), end);
            } catch (const std::bad_alloc&) {
                return false;  // the victim keeps its tasks
            }
            victim.tasks_.erase(victim.tasks_.begin(), end);
        }
        task = taken.back();
        taken.pop_back();
        std::lock_guard lock(self.mutex_);
        self.tasks_.swap(taken);  // its own worker alone adds to it, and found it empty
        return true;
    }
    return false;
}

}  // namespace warren
