// SPDX-License-Identifier: Apache-2.0
// Threads that start at the same moment and work for a given time, for tests of concurrency.
#pragma once

#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "base/random.hpp"

namespace warren {

/// Runs each body on a thread of its own with its own random generator, and waits for all.
inline void run_executor(u64 seed, const std::vector<std::function<void(Random&)>>& bodies) {
    std::barrier start(static_cast<std::ptrdiff_t>(bodies.size()));
    std::vector<std::thread> threads;
    for (u64 i = 0; i < bodies.size(); ++i) {
        threads.emplace_back([&, i] {
            Random random(Random(seed + i).next());
            start.arrive_and_wait();
            bodies[i](random);
        });
    }
    for (std::thread& thread : threads)
        thread.join();
}

/// Tells when a test has run long enough.
class Deadline {
 public:
    explicit Deadline(std::chrono::milliseconds time)
        : end_(std::chrono::steady_clock::now() + time) {}

    bool is_over() const { return std::chrono::steady_clock::now() >= end_; }

 private:
    const std::chrono::steady_clock::time_point end_;
};

}  // namespace warren
