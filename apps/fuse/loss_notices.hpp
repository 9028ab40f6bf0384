// SPDX-License-Identifier: Apache-2.0
// Files that have lost written data. With the kernel's writeback cache it is unknown through which
// descriptor a byte was written, so each descriptor that was open for writing gets the error, once
// for each loss.
#pragma once

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "apps/fuse/open_numbers.hpp"

namespace warren::fuse {

class LossNotices {
 public:
    /// The descriptors of `node` up to the open with count `last` are to get an error. Throws
    /// std::bad_alloc.
    void add(u64 node, u32 last);
    /// Whether this descriptor must still get an error.
    bool must_tell(u64 node, OpenNumber number) const;
    void note_told(u64 node, OpenNumber number);
    /// Whether fewer than the file's `writers` open descriptors have got the error.
    bool has_untold(u64 node, u64 writers) const;
    /// The descriptor was closed.
    void close(u64 node, OpenNumber number);
    /// No descriptor of this file is to get an error any more.
    void forget(u64 node);
    /// The same for all files.
    void forget_all();
    bool is_empty() const { return count_.load(std::memory_order_relaxed) == 0; }

 private:
    struct Loss {
        u32 last = 0;
        std::unordered_set<u64> told;  // numbers of open files
    };

    mutable std::mutex mutex_;  // guards the members below, except for reads of count_
    std::unordered_map<u64, Loss> losses_;
    std::atomic<u64> count_{0};  // size of losses_: most calls read only this
};

}  // namespace warren::fuse
