// SPDX-License-Identifier: Apache-2.0
// What only an engine with memory of its own has: it keeps what commands have applied, and the
// host's Store is no more than what the loader needs. How commits take it, how blocks reach it.
//
// Invariant: a cut is a state between two commands, never within one.
#pragma once

#include <functional>
#include <span>

#include "base/fair_lock.hpp"
#include "fs/format/frame.hpp"
#include "fs/ops/commit_snapshot.hpp"
#include "fs/ops/place_block.hpp"

namespace warren {

/// Frames, of each of its two kinds, that one call of EngineMemory::publish() takes.
constexpr u64 publish_max = 4096;

/// What a commit takes: the dirty blocks of one moment, which lie as copies in the engine's memory.
struct CommitSnapshot {
    std::span<u64> places;  // room for as many as a transaction holds
    u64 count = 0;          // places that are filled in
    ops::CutCounters counters{};
    u64 held_ns = 0;  // so long no command could begin
};

/// A meta buffer in an engine's memory: it has room for some of the metadata. One caller at a time.
class MetaBuffer {
 public:
    virtual ~MetaBuffer() = default;
    virtual u64 meta_buffer_blocks() const = 0;
    /// Puts a block there that the loader has brought, and says what went for it.
    /// Errc::need_commit if everything is in use or dirty.
    virtual Errc place_block(u64 place, const format::Block& block, ops::Evicted& evicted) = 0;
    /// Copies a block from there. Errc::need_block if it is not resident.
    virtual Errc read_block(u64 place, format::Block& block) = 0;
};

class EngineMemory {
 public:
    virtual ~EngineMemory() = default;

    /// Null: all metadata fit.
    virtual MetaBuffer* meta_buffer() = 0;
    /// Shows commands a block that the loader has brought into the host's Store. Not with a meta
    /// buffer, which has place_block().
    virtual Errc show_block(u64 place) = 0;
    /// Gives memory to metadata frames (Errc::need_frame), so that more of them can be claimed.
    virtual Errc add_frames() = 0;
    /// Brings the counters of the host's StoreState up to date, as statfs(2) asks for them.
    virtual Errc refresh_counters() = 0;

    // Commits, one at a time: with steps() locked cut(), then fetch_cut(), allow_generations(),
    // publish(), release_cut().
    /// Shared by each bulk command but for the time of what it asks the volume for. Commands go on
    /// while a commit has it.
    virtual FairLock& steps() = 0;
    /// Waits for what commands apply; calls `at_rest` while nothing changes; copies all dirty
    /// blocks within the engine's memory, where they count as clean from then on; lets commands go
    /// on. Errc::no_memory, and all is as it was; Errc::io if the device is lost; Errc::no_space if
    /// they are more than a transaction holds.
    virtual Errc cut(const std::function<void()>& at_rest, CommitSnapshot& cut) = 0;
    /// Brings the copies of the last cut to the host: block i is that of places[i].
    virtual Errc fetch_cut(format::Block* blocks) = 0;
    /// After the cut is durable: sets the StoreState's generation_limit.
    virtual Errc allow_generations(u64 limit) = 0;
    /// After the cut is durable: lets what it freed be given out again, and ends frames of inodes
    /// that had none left in it. At most publish_max of each.
    virtual Errc publish(std::span<ops::CommittedFrame> frames,
                         std::span<const u64> empty_inode_frames) = 0;
    /// After the cut is durable and at its places: its blocks may leave the meta buffer.
    virtual Errc release_cut() = 0;
    /// No command changes anything any more (Errc::read_only).
    virtual Errc forbid() = 0;
};

}  // namespace warren
