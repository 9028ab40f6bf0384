// SPDX-License-Identifier: Apache-2.0
// Frees detached trees with all workers of the thread pool. bulk/remove_tree/reclaim_tree.hpp
// processes a directory, or a part of a large one; this class divides the work into bulk steps, and
// does between steps what tasks cannot do within one.
//
// Invariant: at the end of a step every inode that still exists is reachable from the orphan
// directory; if that fails, no commit contains the step. Requires a fully resident store, because a
// buffer cache may evict blocks.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "fs/bulk/remove_tree/reclaim_tree.hpp"
#include "fs/volume/orphan_room.hpp"
#include "fs/volume/progress_teller.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {

class TreeRemover {
 public:
    TreeRemover(VolumeImplementation& volume, const ProgressCallback& progress)
        : volume_(volume), orphan_room_(volume.store()), progress_(progress) {}

    /// Frees the directory `root`, which is in the orphan directory, and everything below it. Adds
    /// the counts to `removal`.
    Errc remove(u64 root, Removal& removal);

 private:
    class Step;
    /// What one worker has freed, on a cache line of its own.
    struct alignas(64) Tally {
        ops::FreeTally of;
    };
    /// A directory that outlives a step.
    struct Unfinished {
        u64 directory;
        bool has_leftovers;  // only names that need operations of their own are left
    };

    Errc remove_in_steps();
    Errc remove_some_by_names();
    Errc begin_step(CpuOperation& entry, std::vector<Task>& tasks);
    Errc run_step(std::vector<Task> tasks);
    void visit(ThreadPool::Worker& worker, const Task& task);
    void count_step(core::StoreState& state);
    Errc end_root(const ThreadTeam& team, u64 directory);
    Errc adopt_unfinished();
    Errc prepare_next_step();
    bool step_is_full();
    bool may_detach_more();
    u64 detached_between_looks() const;
    void fail(Errc code);
    template <class Body>
    auto run_in_step(const ThreadTeam& team, const Body& body);
    Errc change_in_step(const ThreadTeam& team, Errc what, u64 inode, u64 key);

    VolumeImplementation& volume_;
    OrphanRoom orphan_room_;
    ProgressTeller progress_;
    std::vector<Tally> tallies_;
    Removal total_;            // by all steps so far; its blocks once remove() ends
    std::vector<u64> rooted_;  // in the orphan directory; the next step begins with them
    std::mutex mutex_;
    std::vector<Unfinished> unfinished_;  // directories that the step leaves
    std::atomic<Errc> error_{Errc::ok};
    std::atomic<u64> detached_{0};        // directories detached but not yet freed
    std::atomic<u64> detached_limit_{0};  // for this many the orphan directory has blocks
    u64 detached_max_ = 0;                // for this many the step has journal credits
    std::atomic<bool> was_full_{false};   // the step ended before everything was done
    u64 dirty_limit_ = 0;
    u32 roomless_commits_ = 0;      // commits in a row after which the step had no room
    alignas(64) u64 dropping_ = 0;  // see LaneRules
    i64 deadline_ = 0;
    i64 now_ = 0;
};

}  // namespace warren
