// SPDX-License-Identifier: Apache-2.0
// Threads that wait for work. Starting a thread costs more than chunking 100 KB, so they are
// started once for a stream and woken for each large piece of it.
//
// Invariant: run() returns when every item is done; nobody touches the job after that.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "warren/types.hpp"

namespace warren::chunk {

class Workers {
 public:
    /// The calling thread is one of `threads`; 0 means one for each processor this process may use.
    explicit Workers(u32 threads);
    ~Workers();
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;

    u32 threads() const { return threads_; }

    /// Calls work(item, worker) for every item below `count`; no two calls at a time have the same
    /// worker, a number below threads().
    void run(u64 count, const std::function<void(u64 item, u32 worker)>& work);

 private:
    void serve(u32 worker);
    void take_items(u32 worker);

    u32 threads_;
    std::vector<std::thread> others_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::condition_variable done_;
    const std::function<void(u64, u32)>* work_ = nullptr;
    u64 count_ = 0;
    u64 next_ = 0;
    u64 round_ = 0;
    u32 busy_ = 0;
    bool ends_ = false;
};

}  // namespace warren::chunk
