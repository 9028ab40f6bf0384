// SPDX-License-Identifier: Apache-2.0
// Keeps objects that hold scarce memory for their next use, until the owner of the list drops them.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/out_of_memory.hpp"

namespace warren {

/// Called by many threads.
template <class T>
class IdleList {
 public:
    /// Takes out what was kept last; null if there is nothing.
    std::unique_ptr<T> take() {
        const std::lock_guard lock(mutex_);
        if (idle_.empty()) return nullptr;
        std::unique_ptr<T> taken = std::move(idle_.back());
        idle_.pop_back();
        return taken;
    }
    /// Keeps `idle` unless it is null; frees it if there is no memory for the list.
    void keep(std::unique_ptr<T> idle) {
        if (idle == nullptr) return;
        const std::lock_guard lock(mutex_);
        static_cast<void>(or_no_memory([&] { idle_.push_back(std::move(idle)); }));
    }
    /// Frees everything that is kept.
    void drop() {
        std::vector<std::unique_ptr<T>> idle;
        const std::lock_guard lock(mutex_);
        idle.swap(idle_);
    }

 private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<T>> idle_;  // guarded by mutex_
};

}  // namespace warren
