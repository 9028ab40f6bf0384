// SPDX-License-Identifier: Apache-2.0
// The threads that copy dirty blocks while all operations wait. One thread cannot use the full
// memory bandwidth, so several copy for a large commit. They are not workers of the volume's thread
// pool: a bulk operation may be using that, and wait for this commit.
//
// Invariant: gather() allocates nothing beyond prepare(); without that, the caller copies alone.
#pragma once

#include <memory>
#include <vector>

#include "fs/engine/cpu/thread_pool.hpp"
#include "fs/ops/commit_snapshot.hpp"

namespace warren {

class Gatherers {
 public:
    /// More threads do not copy faster; for fewer blocks waking a thread takes longer than copying.
    static constexpr u32 threads_max = 8;
    static constexpr u64 shared_blocks_min = 512;

    /// At most `threads` copy, the caller of gather() among them.
    void set_width(u32 threads) { width_ = threads < threads_max ? threads : threads_max; }

    /// Prepares to copy about `blocks`. The threads that it starts sleep between commits.
    void prepare(u64 blocks);
    /// ops::gather_dirty() of all that is listed, on the host.
    void gather(const core::Store& store, const ops::CutArea& area);

 private:
    u32 width_ = 1;
    std::unique_ptr<ThreadPool> thread_pool_;
    std::vector<Task> tasks_;  // of the next gather(); empty: the caller copies alone
};

}  // namespace warren
