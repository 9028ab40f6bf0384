// SPDX-License-Identifier: Apache-2.0
// Empty leaves left by removals, to be pruned at the next commit. If the list is full, the removal
// prunes the leaf itself.
//
// Invariant: each element is taken once. By then the directory may be gone and its inode number
// reused, so a prune checks what it finds.
#pragma once

#include <array>
#include <mutex>
#include <utility>

#include "fs/ops/unlink.hpp"

namespace warren {

class PendingPrunes {
 public:
    static constexpr u64 most = 32;
    using List = std::array<ops::Removed, most>;

    /// False if the list is full. Requires: `prune` has nothing to reclaim.
    bool add(const ops::Removed& prune) {
        const std::lock_guard lock(mutex_);
        if (count_ == most) return false;
        list_[count_++] = prune;
        return true;
    }
    /// Moves all elements to `list` and returns their number.
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
