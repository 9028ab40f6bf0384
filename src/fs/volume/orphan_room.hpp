// SPDX-License-Identifier: Apache-2.0
// Reserves blocks for entries of the orphan directory: a bulk step must link what it leaves
// unfinished there, and no commit can free space within a step.
//
// Invariant: a step that detaches at most names() directories finds a block for each leaf and node
// that their entries need.
#pragma once

#include <algorithm>
#include <mutex>
#include <vector>

#include "fs/core/held_frames.hpp"

namespace warren {

class OrphanRoom {
 public:
    explicit OrphanRoom(const core::Store& store) : store_(store) { runs_.reserve(runs_max); }
    ~OrphanRoom() {
        for (const core::Run& run : runs_)
            core::unreserve(store_, run.place, run.blocks);
    }
    OrphanRoom(const OrphanRoom&) = delete;
    OrphanRoom& operator=(const OrphanRoom&) = delete;

    /// Sets the number of blocks of the orphan directory, each of which may have to be split.
    void note_old_blocks(u64 blocks) {
        const std::lock_guard lock(mutex_);
        old_blocks_ = blocks;
    }
    /// For how many entries the reserved blocks suffice.
    u64 names() {
        const std::lock_guard lock(mutex_);
        return core::orphan_names_in(blocks_, old_blocks_, 1);
    }
    /// Reserves blocks until they suffice for `names` entries. On Errc::need_space or Errc::retry
    /// the blocks reserved so far stay reserved.
    Errc hold(u64 names) {
        const std::lock_guard lock(mutex_);
        const u64 wanted = core::blocks_for_orphans(names, old_blocks_, 1);
        while (blocks_ < wanted) {
            if (runs_.size() == runs_max) return Errc::need_space;
            const u64 missing = std::min<u64>(wanted - blocks_, format::blocks_per_frame);
            WARREN_LET(run, core::reserve_run(store_, 0, core::FrameKind::metadata, 0,
                                              static_cast<u32>(missing)));
            runs_.push_back(*run);
            blocks_ += run->blocks;
        }
        return Errc::ok;
    }
    /// Releases one reserved block, for use by an entry. Only one, because other operations can
    /// take released blocks. False if none is left.
    bool give_back() {
        const std::lock_guard lock(mutex_);
        if (runs_.empty()) return false;
        core::Run& run = runs_.back();
        --run.blocks;
        --blocks_;
        core::unreserve(store_, run.place + u64{run.blocks} * format::block_size, 1);
        if (run.blocks == 0) runs_.pop_back();
        return true;
    }

 private:
    static constexpr u64 runs_max = 512;

    const core::Store& store_;
    std::mutex mutex_;
    std::vector<core::Run> runs_;
    u64 blocks_ = 0;
    u64 old_blocks_ = 0;
};

}  // namespace warren
