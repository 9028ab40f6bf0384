// SPDX-License-Identifier: Apache-2.0
// Frees detached trees with all workers of the crew: ops/remove_tree.hpp does one directory or one
// part of a large one; this keeps the queue, cuts the work into bulk steps, and serves what tasks
// could not do within one.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "fs/ops/remove_tree.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {

class TreeRemover {
public:
    explicit TreeRemover(VolumeImplementation& volume) : volume_(volume) {}

    /// Frees the directory `root`, which hangs on the orphan directory, and all below it; adds what
    /// went to `removal`.
    Errc remove(u64 root, Removal& removal);

private:
    /// A directory so large that several workers share its leaves.
    struct Shared {
        u64 directory;
        std::atomic<u64> ranges_left;
    };
    struct Range {
        std::shared_ptr<Shared> of;
        u64 begin;
        u64 end;
    };
    struct alignas(64) Tally {
        ops::Harvest harvest;
        u64 directories = 0;
    };
    /// A directory that a step could not finish and the block it waits for (place_none: for names
    /// that need an operation of their own, or for the next step).
    struct Unfinished {
        u64 directory;
        u64 missing_block;
    };

    Errc run_step(CpuOperation& gate, const std::vector<u64>& directories);
    void visit(Crew::Worker& worker, u64 directory);
    void visit_range(Crew::Worker& worker, std::unique_ptr<Range> range);
    bool share(Crew::Worker& worker, u64 directory);
    bool harvest(Crew::Worker& worker, u64 directory, u64 begin, u64 end);
    void finish_directory(Crew::Worker& worker, u64 directory);
    Errc drop_root(const ThreadTeam& team, u64 directory);
    Errc adopt_unfinished();
    Result<std::vector<u64>> prepare_next_step();
    Errc remove_leftovers(u64 directory);

    bool step_is_full() const;
    void set_aside(u64 directory, u64 missing_block = core::place_none);
    void fail(Errc code);
    template <class Body>
    auto run_in_step(const ThreadTeam& team, const Body& body);

    VolumeImplementation& volume_;
    std::vector<Tally> tallies_;
    std::vector<u64> rooted_;  // what hangs on the orphan directory by our hand; sorted
    std::mutex mutex_;
    std::vector<Unfinished> unfinished_;
    std::atomic<Errc> error_{Errc::ok};
    u64 dirty_limit_ = 0;
    i64 deadline_ = 0;
    i64 now_ = 0;
};

}  // namespace warren
