// SPDX-License-Identifier: Apache-2.0
// A lock that many share and one may have alone. With std::shared_mutex alone, whoever wants it
// alone can wait for ever while others come and go.
//
// Invariant: who asks for it later than somebody who wants it alone waits behind him.
#pragma once

#include <mutex>
#include <shared_mutex>

namespace warren {

/// For std::lock_guard and std::shared_lock.
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
    std::mutex turn_;  // passed on the way to lock_
    std::shared_mutex lock_;
};

}  // namespace warren
