// SPDX-License-Identifier: Apache-2.0
// The interface of an engine that keeps metadata in memory of its own: how commits take snapshots
// of it, and how blocks get there. The host's Store then serves only the loader.
//
// Invariant: a snapshot (cut) shows a state between two commands, never within one.
#pragma once

#include <functional>
#include <span>

#include "base/fair_lock.hpp"
#include "fs/format/frame.hpp"
#include "fs/ops/commit_snapshot.hpp"
#include "fs/ops/place_block.hpp"

namespace warren {

/// How many frames of each of the two kinds one call of EngineMemory::publish() takes.
constexpr u64 publish_max = 4096;

/// The dirty blocks of one moment. Their copies are in the engine's memory.
struct CommitSnapshot {
    std::span<u64> places;  // room for as many as a transaction holds
    u64 count = 0;          // how many of `places` are set
    ops::CutCounters counters{};
    u64 held_ns = 0;  // how long no command could begin
};

/// A metadata buffer in an engine's memory, for a part of the metadata. One caller at a time.
class MetaBuffer {
 public:
    virtual ~MetaBuffer() = default;
    virtual u64 meta_buffer_blocks() const = 0;
    /// Stores a block that the loader has read; `evicted` receives the block that made room for it.
    /// Errc::need_commit if every block is in use or dirty.
    virtual Errc place_block(u64 place, const format::Block& block, ops::Evicted& evicted) = 0;
    /// Copies a block to `block`. Errc::need_block if it is not resident.
    virtual Errc read_block(u64 place, format::Block& block) = 0;
};

class EngineMemory {
 public:
    virtual ~EngineMemory() = default;

    /// Null if the memory has room for all metadata.
    virtual MetaBuffer* meta_buffer() = 0;
    /// Makes a block that the loader has read into the host's Store visible to commands. With a
    /// metadata buffer, call place_block() instead.
    virtual Errc show_block(u64 place) = 0;
    /// Allocates memory for more metadata frames; serves Errc::need_frame.
    virtual Errc add_frames() = 0;
    /// Updates the counters in the host's StoreState that statfs(2) reports.
    virtual Errc refresh_counters() = 0;

    // A commit calls cut() with steps() locked, then fetch_cut(), allow_generations(), publish()
    // and release_cut(). One commit at a time.
    /// Each bulk command holds it shared, except while it waits for the volume. Single commands do
    /// not take it, so they continue while a commit holds it.
    virtual FairLock& steps() = 0;
    /// Waits until no command applies changes, calls `at_rest`, copies all dirty blocks within the
    /// engine's memory and marks them clean, then lets commands continue. Errc::no_memory: nothing
    /// has changed. Errc::io: the device is lost. Errc::no_space: more blocks are dirty than a
    /// transaction holds.
    virtual Errc cut(const std::function<void()>& at_rest, CommitSnapshot& cut) = 0;
    /// Copies the blocks of the last snapshot to the host; blocks[i] is the one at places[i].
    virtual Errc fetch_cut(format::Block* blocks) = 0;
    /// Call after the snapshot is durable: sets generation_limit in the engine's StoreState.
    virtual Errc allow_generations(u64 limit) = 0;
    /// Call after the snapshot is durable: makes the blocks that it freed available, and frees the
    /// inode frames that were empty in it. At most publish_max frames of each kind.
    virtual Errc publish(std::span<ops::CommittedFrame> frames,
                         std::span<const u64> empty_inode_frames) = 0;
    /// Call after the blocks are at their home locations: the metadata buffer may evict them.
    virtual Errc release_cut() = 0;
    /// Makes every command that would change something fail with Errc::read_only.
    virtual Errc forbid() = 0;
};

}  // namespace warren
