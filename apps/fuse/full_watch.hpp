// SPDX-License-Identifier: Apache-2.0
// Whether a volume is so nearly full that what the kernel holds back of writes may find no room.
// Then files are opened for writing past the page cache, so that write(2) itself is told, and a
// refusal is still worth telling.
#pragma once

#include <atomic>

#include "warren/volume.hpp"

namespace warren::fuse {

class FullWatch {
 public:
    /// From now on at least `credit_bytes` must be available, which the kernel may hold back. Until
    /// then no volume counts as nearly full.
    void start(u64 credit_bytes) { credit_bytes_.store(credit_bytes, std::memory_order_relaxed); }

    /// Looks at the volume at most once in 50 ms, for that takes longer than to open a file.
    bool is_nearly_full(const Volume& volume);

    /// A write has been refused: the volume counts as full, and the next call looks.
    void note_refusal() {
        answer_.store(true, std::memory_order_relaxed);
        next_look_.store(0, std::memory_order_relaxed);
    }

 private:
    std::atomic<u64> credit_bytes_{0};
    std::atomic<i64> next_look_{0};  // by CLOCK_MONOTONIC
    std::atomic<bool> answer_{false};
};

}  // namespace warren::fuse
