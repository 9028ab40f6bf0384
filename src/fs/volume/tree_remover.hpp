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
    Errc run_step(CpuOperation& gate);
    u64 count_done() const;
    void visit(Crew::Worker& worker, u64 directory);
    void visit_range(Crew::Worker& worker, std::unique_ptr<Range> range);
    bool share(Crew::Worker& worker, u64 directory);
    bool harvest(Crew::Worker& worker, u64 directory, u64 begin, u64 end);
    void finish_directory(Crew::Worker& worker, u64 directory);
    Errc drop_root(const ThreadTeam& team, u64 directory);
    Errc adopt_unfinished();
    Errc prepare_next_step();
    Errc remove_leftovers(u64 directory);

    bool step_is_full() const;
    void set_aside(u64 directory, bool needs_commit = false);
    void set_aside_changed(const ThreadTeam& team, u64 directory, bool needs_commit);
    bool is_rooted(u64 directory) const;
    void fail(Errc code);
    template <class Body>
    auto run_in_step(const ThreadTeam& team, const Body& body);

    VolumeImplementation& volume_;
    std::vector<Tally> tallies_;
    std::vector<u64> rooted_;  // hang on the orphan directory; the step begins with them; sorted
    std::mutex mutex_;
    std::vector<u64> unfinished_;  // what the step leaves
    bool needs_commit_ = false;    // the meta buffer was full of dirty blocks
    std::atomic<Errc> error_{Errc::ok};
    std::atomic<u64> loose_{0};  // directories taken out of their parents and not freed yet
    u64 loose_limit_ = 0;
    u64 dirty_limit_ = 0;
    i64 deadline_ = 0;
    i64 now_ = 0;
};

}  // namespace warren
