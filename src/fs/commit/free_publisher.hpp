// SPDX-License-Identifier: Apache-2.0
// Blocks that a commit freed may be reused once that commit is durable. Only then are they
// discarded on the disk and returned to the allocator, in this order.
//
// Invariant: publishing cannot fail for lack of memory. take_memory() allocates lists of fixed
// length before the commit begins.
#pragma once

#include <span>
#include <vector>

#include "fs/cache/file_buffer.hpp"
#include "fs/core/store.hpp"
#include "fs/disk/disk.hpp"
#include "fs/engine/engine_memory.hpp"
#include "fs/ops/commit_snapshot.hpp"

namespace warren {

/// A copy of a block in a commit snapshot.
struct CommitCopy {
    u64 place;  // home location
    format::Block* block;
};

class FreePublisher {
 public:
    /// Requires: both outlive this.
    FreePublisher(Disk& disk, const core::Store& store) : disk_(disk), store_(store) {}

    /// Publishes in the memory of `engine`, which outlives this.
    void use_engine(EngineMemory& engine) { engine_ = &engine; }
    /// Sets the buffer of file contents, which outlives this.
    void keep_data(FileBuffer* buffer) { file_buffer_ = buffer; }

    /// Allocates what publish() needs. Throws std::bad_alloc.
    void take_memory();
    /// Publishes the blocks that are free in the copied frame table and inode bitmaps but were not
    /// in the previous commit. Requires: take_memory(); the commit is durable; no other commit
    /// takes its snapshot meanwhile.
    Errc publish(std::span<const CommitCopy> copies);
    /// Frees an empty inode frame, as publish() does with those whose last inode was removed.
    /// Requires: as publish().
    Errc end_inode_frame(u64 frame);
    /// Publishes the frames that are noted. Call after the last end_inode_frame().
    Errc publish_noted();
    /// Whether inode frames were freed since publish() began. The next commit makes that durable.
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
    EngineMemory* engine_ = nullptr;  // null: the engine works on the host's Store
    FileBuffer* file_buffer_ = nullptr;
    // Frames that are noted and not yet published.
    std::vector<ops::CommittedFrame> frames_;
    std::vector<u64> empty_inode_frames_;
    bool ended_frames_ = false;
};

}  // namespace warren
