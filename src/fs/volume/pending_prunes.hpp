// SPDX-License-Identifier: Apache-2.0
// Empty leaves that removals have left, to be pruned at the next commit. If there is no room in
// this list, the removal prunes at once.
//
// Invariant: what was added is taken out once. By then the directory may be gone, and its number
// reused: a prune checks what it finds.
#pragma once

#include <array>
#include <mutex>
#include <utility>

#include "fs/format/layout.hpp"

namespace warren {

struct PendingPrune {
    u64 inode = 0;  // of the directory
    u64 key = 0;    // of an entry that lay in the leaf
};

class PendingPrunes {
 public:
    static constexpr u64 most = 32;
    using List = std::array<PendingPrune, most>;

    /// False if there is no room.
    bool add(const PendingPrune& prune) {
        const std::lock_guard lock(mutex_);
        if (count_ == most) return false;
        list_[count_++] = prune;
        return true;
    }
    /// Takes all out into `list`; how many there are.
    u64 take(List& list) {
        const std::lock_guard lock(mutex_);
        list = list_;
        return std::exchange(count_, 0);
    }

 private:
    std::mutex mutex_;
    List list_{};
    u64 count_ = 0;
};

}  // namespace warren
