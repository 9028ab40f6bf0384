// SPDX-License-Identifier: Apache-2.0
// Keeps what holds scarce memory for its next use, until others need the memory.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

namespace warren {

/// Called by many threads.
template <class T>
class IdleSlot {
 public:
    /// Takes out what is kept; null if there is nothing.
    std::unique_ptr<T> take() {
        const std::lock_guard lock(mutex_);
        return std::move(kept_);
    }
    /// Keeps `idle` in place of what was kept before.
    void keep(std::unique_ptr<T> idle) {
        const std::lock_guard lock(mutex_);
        kept_.swap(idle);
    }
    /// Frees what is kept.
    void drop() { static_cast<void>(take()); }

 private:
    std::mutex mutex_;
    std::unique_ptr<T> kept_;  // guarded by mutex_
};

}  // namespace warren
