// SPDX-License-Identifier: Apache-2.0
// What a commit freed may be given out again once that commit is durable. Only then the disk is
// told that nothing is there any more, and after it the allocator.
//
// Invariant: nothing here can fail for want of memory, which is taken before the commit begins.
// Frames pass through lists of fixed length.
#pragma once

#include <span>
#include <vector>

#include "fs/cache/file_buffer.hpp"
#include "fs/core/store.hpp"
#include "fs/disk/disk.hpp"
#include "fs/engine/engine.hpp"
#include "fs/ops/commit_cut.hpp"

namespace warren {

/// A block as a commit took it.
struct CommitCopy {
    u64 place;  // bytes, on the disk
    format::Block* block;
};

class FreePublisher {
 public:
    /// Requires: both outlive this.
    FreePublisher(Disk& disk, const core::Store& store) : disk_(disk), store_(store) {}

    /// For an engine that has memory of its own and outlives this.
    void use_engine(Engine& engine) { engine_ = &engine; }
    /// Contents are kept in `buffer`, which outlives this.
    void keep_data(FileBuffer* buffer) { file_buffer_ = buffer; }

    /// Takes what publish() needs. Throws std::bad_alloc.
    void take_memory();
    /// Publishes what the copied tables and bitmaps have free and the commit before had not.
    /// Requires: take_memory(); the commit is durable; no other takes its copies meanwhile.
    Errc publish(std::span<const CommitCopy> copies);
    /// Ends a frame of inodes as publish() ends those whose last inode went. Requires: as
    /// publish().
    Errc end_inode_frame(u64 frame);
    /// To be called behind the last end_inode_frame().
    Errc publish_noted();
    /// Whether frames of inodes were ended since publish() began: the next commit makes them free.
    bool ended_frames() const { return ended_frames_; }

 private:
    Errc note_table(const CommitCopy& copy);
    Errc note_frame(u64 frame, const format::FrameEntry& committed);
    Errc note_bitmap(const CommitCopy& copy);
    void publish_here();
    Errc publish_there();
    void discard_runs(u64 frame, const u64 (&freed)[8]);

    Disk& disk_;
    const core::Store& store_;
    Engine* engine_ = nullptr;  // null: it works on the host's Store
    FileBuffer* file_buffer_ = nullptr;
    // Noted and not yet published.
    std::vector<ops::CommittedFrame> frames_;
    std::vector<u64> empty_inode_frames_;
    bool ended_frames_ = false;
};

}  // namespace warren
