// SPDX-License-Identifier: Apache-2.0
// The thread that detached a directory and the thread that closes it last may both try to free it.
// Bulk steps name directories by number, and a number may belong to another inode once it is free:
// that inode has turns of its own.
//
// Invariant: a detached directory that a program may still close is freed only by the thread that
// has the turn for it, and has checked within the turn that the inode still exists. So the number
// stays the directory's own until that thread frees it, and does not use the number any more.
#pragma once

#include <condition_variable>
#include <mutex>
#include <set>
#include <utility>

#include "warren/volume.hpp"

namespace warren {

class RemovalTurns {
    using Key = std::pair<u64, u32>;  // inode number, generation

 public:
    class Turn {
     public:
        /// Waits until no other thread has the turn for `directory`, then takes it.
        Turn(RemovalTurns& turns, Handle directory)
            : turns_(turns), key_(directory.inode, directory.generation) {
            std::unique_lock lock(turns_.mutex_);
            turns_.ended_.wait(lock, [this] { return !turns_.taken_.contains(key_); });
            is_taken_ = turns_.taken_.insert(key_).second;
        }
        /// Takes the turn for `directory` unless another thread has it; does not wait.
        Turn(RemovalTurns& turns, Handle directory, std::try_to_lock_t /*way*/)
            : turns_(turns), key_(directory.inode, directory.generation) {
            const std::lock_guard lock(turns_.mutex_);
            is_taken_ = turns_.taken_.insert(key_).second;
        }
        ~Turn() {
            if (!is_taken_) return;
            const std::lock_guard lock(turns_.mutex_);
            turns_.taken_.erase(key_);
            turns_.ended_.notify_all();
        }
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;

        bool is_taken() const { return is_taken_; }

     private:
        RemovalTurns& turns_;
        const Key key_;
        bool is_taken_;
    };

 private:
    std::mutex mutex_;
    std::condition_variable ended_;
    std::set<Key> taken_;
};

}  // namespace warren
