// SPDX-License-Identifier: Apache-2.0
// The threads that copy dirty blocks while everybody else waits. One thread reaches a part of what
// the memory can do, so a large commit's copies are shared among several. They are no workers of
// the volume's crew: a bulk operation may have that one, and wait for this very commit.
//
// Invariant: gather() needs no memory beyond what prepare() took; without it, it copies alone.
#pragma once

#include <memory>
#include <vector>

#include "fs/engine/cpu/crew.hpp"
#include "fs/ops/commit_cut.hpp"

namespace warren {

class Gatherers {
 public:
    /// More do not copy faster; fewer blocks are copied before a second thread is awake.
    static constexpr u32 threads_max = 8;
    static constexpr u64 shared_blocks_min = 512;

    /// At most `threads` copy, the caller of gather() among them.
    void set_width(u32 threads) { width_ = threads < threads_max ? threads : threads_max; }

    /// Gets ready to copy about `blocks`. Threads that it starts sleep between commits, and end
    /// with this.
    void prepare(u64 blocks);
    /// ops::gather_dirty() of all that is listed, as a host copies it.
    void gather(const core::Store& store, const ops::CutArea& area);

 private:
    u32 width_ = 1;
    std::unique_ptr<Crew> crew_;
    std::vector<Task> tasks_;  // of the next gather(); none: it is to copy alone
};

}  // namespace warren
