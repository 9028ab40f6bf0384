// SPDX-License-Identifier: Apache-2.0
// Files of which written data are lost. With the kernel's writeback cache it is unknown which
// descriptor a byte came from, so each that was open for writing is told, once for each loss.
#pragma once

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "apps/fuse/open_numbers.hpp"

namespace warren::fuse {

class LossNotices {
 public:
    /// The descriptors of `node` up to the open with the count `last` are to be told. Throws
    /// std::bad_alloc.
    void add(u64 node, u32 last);
    /// Whether this descriptor has not been told yet.
    bool must_tell(u64 node, OpenNumber number) const;
    void note_told(u64 node, OpenNumber number);
    /// Whether fewer than the `writers` that have the file open have been told of a loss.
    bool has_untold(u64 node, u64 writers) const;
    /// The descriptor is gone.
    void close(u64 node, OpenNumber number);
    /// Nobody is to be told of this file any more.
    void forget(u64 node);
    /// Likewise of any file.
    void forget_all();
    bool is_empty() const { return count_.load(std::memory_order_relaxed) == 0; }

 private:
    struct Loss {
        u32 last = 0;
        std::unordered_set<u64> told;  // numbers of open files
    };

    mutable std::mutex mutex_;  // guards what follows, but for reads of count_
    std::unordered_map<u64, Loss> losses_;
    std::atomic<u64> count_{0};  // of losses_: most calls look no further
};

}  // namespace warren::fuse
