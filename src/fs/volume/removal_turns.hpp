// SPDX-License-Identifier: Apache-2.0
// The thread that detached a directory and the thread that closes it last may both try to free it.
// The second one must not free it by number, because the number may belong to another inode by
// then.
//
// Invariant: at most one thread has the turn for an inode, and first checks whether the inode still
// exists.
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
        /// Waits until no other thread has the turn for `inode`, then takes it.
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
