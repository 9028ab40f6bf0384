// SPDX-License-Identifier: Apache-2.0
// Shows on the terminal that something long is under way: after one second, five times a second,
// on stderr, and only if that is a terminal. Nothing is left of it at the end.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "warren/types.hpp"
#include "warren/walk.hpp"

namespace warren::cli {

class Progress {
 public:
    /// `what` says what is being done, for instance "copying".
    explicit Progress(std::string what);
    /// Shows what `meter` counts: how much, how fast, what waits.
    Progress(std::string what, const walk::Meter& meter);
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    /// Counts what was done. Cheap, from any thread.
    void add(u64 items, u64 bytes) {
        items_.fetch_add(items, std::memory_order_relaxed);
        bytes_.fetch_add(bytes, std::memory_order_relaxed);
    }

 private:
    void run();
    std::string counts(double seconds) const;

    std::string what_;
    const walk::Meter* meter_ = nullptr;
    std::atomic<u64> items_{0};
    std::atomic<u64> bytes_{0};
    std::mutex mutex_;
    std::condition_variable wake_;
    bool done_ = false;
    std::thread thread_;
};

}  // namespace warren::cli
