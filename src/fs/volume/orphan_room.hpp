// SPDX-License-Identifier: Apache-2.0
// Blocks reserved for entries of the orphan directory: a bulk step must link there what it leaves,
// and within a step no commit can free space.
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

    /// Sets how many blocks the orphan directory has: any of them may be split.
    void note_old_blocks(u64 blocks) {
        const std::lock_guard lock(mutex_);
        old_blocks_ = blocks;
    }
    /// For how many entries there is room.
    u64 names() {
        const std::lock_guard lock(mutex_);
        return core::orphan_names_in(blocks_, old_blocks_, 1);
    }
    /// Reserves blocks until there is room for `names`. Errc::need_space or retry if there is not;
    /// the blocks reserved so far are kept.
    Errc hold(u64 names) {
        const std::lock_guard lock(mutex_);
        const u64 wanted = core::blocks_for_orphans(names, old_blocks_, 1);
        while (blocks_ < wanted) {
            if (runs_.size() == runs_max) return Errc::need_space;
            const u64 missing = std::min<u64>(wanted - blocks_, format::blocks_per_frame);
            const Result<core::Run> run = core::reserve_run(store_, 0, core::FrameKind::metadata, 0,
                                                            static_cast<u32>(missing));
            if (!run) return run.code();
            runs_.push_back(*run);
            blocks_ += run->blocks;
        }
        return Errc::ok;
    }
    /// Releases one reserved block for an entry; only one, for other operations may take free
    /// blocks. False if none is left.
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
