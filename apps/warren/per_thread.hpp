// SPDX-License-Identifier: Apache-2.0
// State that each thread of a scan has for itself and that is collected after the scan: buffered
// lines, the path of the current directory.
//
// Invariant: a thread always gets the same object from one PerThread, and never that of another
// thread.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "warren/types.hpp"

namespace warren::cli {

template <class T>
class PerThread {
 public:
    PerThread() : number_(next_number().fetch_add(1, std::memory_order_relaxed)) {}

    /// The calling thread's object.
    T& local() {
        thread_local u64 owner = 0;
        thread_local T* object = nullptr;
        if (owner != number_) {
            std::lock_guard lock(mutex_);
            all_.push_back(std::make_unique<T>());
            object = all_.back().get();
            owner = number_;
        }
        return *object;
    }

    /// The objects of all threads. Requires: no thread is in local() or uses its object.
    std::vector<std::unique_ptr<T>>& all() { return all_; }

 private:
    static std::atomic<u64>& next_number() {
        static std::atomic<u64> number{1};
        return number;
    }

    u64 number_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<T>> all_;
};

}  // namespace warren::cli
