// SPDX-License-Identifier: Apache-2.0
// Tells whether a volume is so nearly full that there may be no room for the dirty pages that the
// kernel holds back. Files are then opened for writing past the page cache, so that write(2) itself
// gets ENOSPC, and refused writes are still reported to their writers.
#pragma once

#include <atomic>

#include "warren/volume.hpp"

namespace warren::fuse {

class FullWatch {
 public:
    /// `credit_bytes` is how much the kernel may hold back: with less available the volume counts
    /// as nearly full. Before this call no volume does.
    void start(u64 credit_bytes) { credit_bytes_.store(credit_bytes, std::memory_order_relaxed); }

    /// Examines the volume at most every 50 ms, since that takes longer than opening a file.
    bool is_nearly_full(const Volume& volume);

    /// Records a refused write: the volume counts as full, and the next call examines it again.
    void note_refusal() {
        answer_.store(true, std::memory_order_relaxed);
        next_look_.store(0, std::memory_order_relaxed);
    }

 private:
    std::atomic<u64> credit_bytes_{0};
    std::atomic<i64> next_look_{0};  // on CLOCK_MONOTONIC
    std::atomic<bool> answer_{false};
};

}  // namespace warren::fuse
