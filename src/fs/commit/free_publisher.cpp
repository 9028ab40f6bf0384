// SPDX-License-Identifier: Apache-2.0
// Frames with freed blocks are found in the frame table blocks and inode bitmaps of the commit, and
// are noted in lists of fixed length. A list that becomes full is published before the next frame
// is noted.
//
// With an engine that has its own memory, the host's Store is updated as well.
#include "fs/commit/free_publisher.hpp"

#include "fs/core/operation.hpp"
#include "fs/ops/inode_frame.hpp"

namespace warren {

using format::FrameKind;

void FreePublisher::take_memory() {
    frames_.reserve(publish_max);
    empty_inode_frames_.reserve(publish_max);
}

Errc FreePublisher::publish(std::span<const CommitCopy> copies) {
    frames_.clear();
    empty_inode_frames_.clear();
    ended_frames_ = false;
    for (const CommitCopy& copy : copies) {
        if (ops::is_table_place(store_, copy.place)) WARREN_TRY(note_table(copy));
    }
    for (const CommitCopy& copy : copies)
        WARREN_TRY(note_bitmap(copy));
    return publish_noted();
}

Errc FreePublisher::note_table(const CommitCopy& copy) {
    const auto& table = reinterpret_cast<const format::FrameTableBlock&>(*copy.block);
    const u64 first = (copy.place - store_.frame_table_offset) / format::block_size *
                      format::frames_per_table_block;
    for (u64 i = 0; i < format::frames_per_table_block && first + i < store_.frame_count; ++i)
        WARREN_TRY(note_frame(first + i, table.entries[i]));
    return Errc::ok;
}

/// Notes `frame` if the commit freed blocks in it or may have left it empty, and discards those
/// blocks. `committed` is its entry in the commit.
Errc FreePublisher::note_frame(u64 frame, const format::FrameEntry& committed) {
    const auto kind = static_cast<FrameKind>(committed.kind);
    const core::FrameOverlay& overlay = store_.overlays[frame];
    ops::CommittedFrame noted{frame, kind, {}, 0};
    if (kind == FrameKind::free) {
        // Only an inode frame becomes free before it is published; it was one if its bits are set.
        if (relaxed_load(overlay.committed[0]) == 0) return Errc::ok;
        static_cast<void>(disk_.discard(frame * format::frame_size, format::frame_size));
    } else if (kind == FrameKind::data || kind == FrameKind::metadata) {
        u64 freed[8];
        for (u32 w = 0; w < 8; ++w) {
            noted.used[w] = committed.used[w];
            freed[w] = relaxed_load(overlay.committed[w]) & ~committed.used[w];
        }
        const bool freed_some = core::has_bit(freed);
        // Blocks that were allocated and freed between two commits may also have left a frame
        // empty.
        if (!freed_some && core::has_bit(noted.used)) return Errc::ok;
        if (freed_some) discard_runs(frame, freed);
    } else {
        return Errc::ok;
    }
    frames_.push_back(noted);
    return frames_.size() < publish_max ? Errc::ok : publish_noted();
}

/// Notes a frame whose last inode was removed in this commit.
Errc FreePublisher::note_bitmap(const CommitCopy& copy) {
    const auto& bitmap = reinterpret_cast<const format::InodeBitmap&>(*copy.block);
    if (copy.place % format::frame_size != 0) return Errc::ok;
    if (bitmap.header.kind != static_cast<u16>(format::BlockKind::inode_bitmap)) return Errc::ok;
    if (!ops::holds_no_inode(bitmap)) return Errc::ok;
    return end_inode_frame(copy.place / format::frame_size);
}

Errc FreePublisher::end_inode_frame(u64 frame) {
    ended_frames_ = true;
    empty_inode_frames_.push_back(frame);
    return empty_inode_frames_.size() < publish_max ? Errc::ok : publish_noted();
}

Errc FreePublisher::publish_noted() {
    if (engine_ != nullptr) {
        WARREN_TRY(publish_there());
    } else {
        publish_here();
    }
    frames_.clear();
    empty_inode_frames_.clear();
    return Errc::ok;
}

void FreePublisher::publish_here() {
    for (ops::CommittedFrame& frame : frames_)
        ops::publish_committed(ThreadTeam{}, store_, frame);
    for (const u64 frame : empty_inode_frames_) {
        core::Operation<ThreadTeam> op(ThreadTeam{}, store_);
        // On failure an operation uses the frame, and it stays an inode frame.
        static_cast<void>(ops::end_inode_frame(op, frame));
        core::finish(op);
    }
}

/// Frames that the engine may release are marked free in the host's Store first. The engine may
/// reuse them at once, and the loader must know then that the disk does not have their contents.
Errc FreePublisher::publish_there() {
    const auto set_kind = [this](const ops::CommittedFrame& frame, FrameKind kind) {
        relaxed_store(store_.frame(frame.frame).kind, static_cast<u64>(kind));
    };
    for (const ops::CommittedFrame& frame : frames_) {
        for (u32 w = 0; w < 8; ++w)
            relaxed_store(store_.overlays[frame.frame].committed[w], frame.used[w]);
        if (!core::has_bit(frame.used)) set_kind(frame, FrameKind::free);
    }
    WARREN_TRY(engine_->publish(frames_, empty_inode_frames_));
    for (const ops::CommittedFrame& frame : frames_)
        if (frame.was_released == 0) set_kind(frame, frame.kind);
    return Errc::ok;
}

/// Discards the blocks of a frame whose bits are set. Errors are ignored, because a discard is a
/// hint.
void FreePublisher::discard_runs(u64 frame, const u64 (&freed)[8]) {
    constexpr u64 blocks = format::blocks_per_frame;
    for (u64 block = 0; (block = core::find_bit_up(freed, block, blocks)) < blocks;) {
        u64 end = block + 1;
        while (end < blocks && core::test_bit(freed, end))
            ++end;
        const u64 place = frame * format::frame_size + block * format::block_size;
        const u64 length = (end - block) * format::block_size;
        if (file_buffer_ != nullptr) file_buffer_->forget(place, length);
        static_cast<void>(disk_.discard(place, length));
        block = end;
    }
}

}  // namespace warren
