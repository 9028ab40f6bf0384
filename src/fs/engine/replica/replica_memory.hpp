// SPDX-License-Identifier: Apache-2.0
// Where a replica keeps its image of a volume's metadata: a device's memory, or the host's in its
// place. One thread at a time calls these functions, and no thread reads the image meanwhile.
//
// A run of a bulk template may also change the image (open_run(), fetch_changes()). It finds no
// room but what the host has taken for it, and the host makes the same changes in its own Store.
#pragma once

#include <span>

#include "fs/core/store.hpp"
#include "fs/engine/replica/run_room.hpp"
#include "fs/format/layout.hpp"
#include "warren/result.hpp"

namespace warren {

/// What readers of an image take from the counters of its moment.
struct ReplicaValues {
    u64 metadata_frames_end;
    u64 blocks_used;
    u64 inodes_used;
};

/// Added to the address of the first of 64 blocks that share a word of the bitmaps. Those whose
/// bits are in the first word of the stage's block are dropped: they are not in memory or not in
/// use any more, so what the image has of them is out of date.
inline constexpr u64 places_dropped = 1;

/// Blocks on their way to an image: blocks[i] is the one at places[i], a block of the frame table
/// or of metadata, or tells which blocks are dropped.
struct ReplicaStage {
    std::span<u64> places;
    format::Block* blocks = nullptr;  // as many
};

/// What a run has changed in an image: blocks[i] is the one at places[i] afterwards, once it has
/// arrived. Of inodes that were removed only the bitmap is among them.
struct ImageChanges {
    std::span<const u64> places;
    const format::Block* blocks = nullptr;  // as many
    core::StoreState state;
};

/// After an error the image is lost.
class ReplicaMemory {
 public:
    virtual ~ReplicaMemory() = default;

    /// Sets `stage` to memory for the next blocks. Blocks sent earlier may still be on their way.
    virtual Errc open_stage(ReplicaStage& stage) = 0;
    /// Sends the first `count` blocks of the open stage, which become resident in the image. Those
    /// that are dropped are not resident afterwards.
    virtual Errc send(u64 count) = 0;
    /// Waits until all that was sent has arrived, and sets the values.
    virtual Errc finish(const ReplicaValues& values) = 0;
    /// The image, with the addresses of the volume. Only a run locks or reserves anything there.
    virtual const core::Store& image() const = 0;

    /// Takes the memory for `blocks` blocks that fetch_changes() brings back. After
    /// Errc::no_memory the image is as it was.
    virtual Errc prepare_changes(u64 blocks) = 0;
    /// Prepares the image for a run that uses `room`. Requires: all that was sent has arrived.
    virtual Errc open_run(const RunRoom& room) = 0;
    /// Begins to bring back what the run has changed, at most as many blocks as prepare_changes()
    /// was told; `changes` is valid until the next call of another function than await_changes().
    virtual Errc fetch_changes(ImageChanges& changes) = 0;
    /// Waits until more of the blocks of `changes`, which arrive in their order, are there; returns
    /// how many are. After an error it returns the same again. By any thread, one at a time.
    virtual Result<u64> await_changes() = 0;
};

}  // namespace warren
