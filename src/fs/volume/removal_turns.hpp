// SPDX-License-Identifier: Apache-2.0
// Who detached a directory from its name and who closes it last may both come to free it, and what
// is freed by number must not be touched by the second: the number may mean another inode by then.
//
// Invariant: at most one turn is out for an inode. Who gets one looks first whether the inode is
// still there.
#pragma once

#include <condition_variable>
#include <mutex>
#include <set>

#include "warren/types.hpp"

namespace warren {

class RemovalTurns {
 public:
    class Turn {
     public:
        /// Waits for whoever is at work on `inode`, then keeps others waiting.
        Turn(RemovalTurns& turns, u64 inode) : turns_(turns), inode_(inode) {
            std::unique_lock lock(turns_.mutex_);
            turns_.ended_.wait(lock, [this] { return !turns_.taken_.contains(inode_); });
            turns_.taken_.insert(inode_);
        }
        ~Turn() {
            const std::lock_guard lock(turns_.mutex_);
            turns_.taken_.erase(inode_);
            turns_.ended_.notify_all();
        }
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;

     private:
        RemovalTurns& turns_;
        const u64 inode_;
    };

 private:
    std::mutex mutex_;
    std::condition_variable ended_;
    std::set<u64> taken_;
};

}  // namespace warren
