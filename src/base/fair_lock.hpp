// SPDX-License-Identifier: Apache-2.0
// A reader-writer lock that does not starve writers. With std::shared_mutex alone, a thread that
// wants exclusive access can wait forever while readers come and go.
//
// Invariant: a thread that requests the lock after a waiting writer gets it after that writer.
#pragma once

#include <mutex>
#include <shared_mutex>

namespace warren {

/// Works with std::lock_guard and std::shared_lock.
class FairLock {
 public:
    void lock() {
        const std::lock_guard turn(turn_);
        lock_.lock();
    }
    void unlock() { lock_.unlock(); }
    void lock_shared() {
        const std::lock_guard turn(turn_);
        lock_.lock_shared();
    }
    void unlock_shared() { lock_.unlock_shared(); }

 private:
    std::mutex turn_;  // every thread acquires it briefly before lock_
    std::shared_mutex lock_;
};

}  // namespace warren
