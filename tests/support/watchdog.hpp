// SPDX-License-Identifier: Apache-2.0
// Stops the program, with the name of what it was at, if that takes too long: a test that would
// hang says where.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

namespace warren {

class Watchdog {
 public:
    Watchdog() : thread_([this] { watch(); }) {}
    ~Watchdog() {
        {
            const std::lock_guard guard(mutex_);
            stop_ = true;
        }
        wake_.notify_all();
        thread_.join();
    }
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;

    /// What is done from here on until the next call must end in time.
    void begin(const std::string& what) {
        const std::lock_guard guard(mutex_);
        what_ = what;
        end_ = std::chrono::steady_clock::now() + time_max;
    }

 private:
    static constexpr std::chrono::seconds time_max{60};

    void watch() {
        std::unique_lock lock(mutex_);
        while (!wake_.wait_for(lock, std::chrono::milliseconds(500), [this] { return stop_; })) {
            if (std::chrono::steady_clock::now() < end_) continue;
            std::fprintf(stderr, "does not end: %s\n", what_.c_str());
            std::abort();
        }
    }

    std::mutex mutex_;  // guards all but the thread
    std::condition_variable wake_;
    std::string what_;
    std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::now() + time_max;
    bool stop_ = false;
    std::thread thread_;
};

}  // namespace warren
