// SPDX-License-Identifier: Apache-2.0
// Empty leaves that removals have left and that wait for the next commit, when their blocks become
// free. Whoever finds no room here prunes at once.
//
// Invariant: what was added is taken out once. The directory may be gone by then, and its number
// another's: a prune looks at what it finds.
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
