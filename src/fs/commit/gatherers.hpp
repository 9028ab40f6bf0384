// SPDX-License-Identifier: Apache-2.0
// The threads that copy dirty blocks while all operations wait. One thread cannot use the full
// memory bandwidth, so several threads copy for a large commit. They are not workers of the
// volume's thread pool, because a bulk operation may occupy those and wait for this commit.
//
// Invariant: gather() allocates nothing: prepare() does, and if it fails the caller copies alone.
#pragma once

#include <memory>
#include <vector>

#include "fs/engine/cpu/thread_pool.hpp"
#include "fs/ops/commit_snapshot.hpp"

namespace warren {

class Gatherers {
 public:
    /// More threads do not copy faster, and for fewer blocks waking a thread takes longer than
    /// copying them.
    static constexpr u32 threads_max = 8;
    static constexpr u64 shared_blocks_min = 512;

    /// Sets how many threads may copy, including the caller of gather().
    void set_width(u32 threads) { width_ = threads < threads_max ? threads : threads_max; }

    /// Prepares to copy about `blocks` blocks. Starts threads if needed; they sleep between
    /// commits.
    void prepare(u64 blocks);
    /// ops::gather_dirty() of all blocks that are listed in `area`.
    void gather(const core::Store& store, const ops::CutArea& area);

 private:
    u32 width_ = 1;
    std::unique_ptr<ThreadPool> thread_pool_;
    std::vector<Task> tasks_;  // of the next gather(); empty: the caller copies alone
};

}  // namespace warren
