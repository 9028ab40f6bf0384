// SPDX-License-Identifier: Apache-2.0
// Makes the blocks of one commit appear on disk all or not at all: they go to the journal first,
// and to their places once the journal is durable. See fs/format/journal.hpp for the bytes.
//
// One commit: seal the dirty blocks and the superblock (clean = 0) with a number one above the
// last, write file data to disk, call write(), then write_places() with the same blocks. What was
// freed by the commit may be used again once write() answered ok. After an error the volume must
// not be written any more: all later calls return Errc::io, and replay decides the fate of the
// commit.
#pragma once

#include <functional>
#include <span>

#include "fs/disk/disk.hpp"
#include "fs/format/journal.hpp"
#include "fs/format/layout.hpp"
#include "fs/format/superblock.hpp"
#include "warren/result.hpp"

namespace warren {

/// A block that is sealed (seal_block, seal_inodes) and its byte offset in the volume.
struct SealedBlock {
    u64 place;
    const format::Block* block;
};

// Rule of replay: let S be the number of the sound superblock (the first copy if it is sound, else
// the second). Complete transactions N > S are written to their places in the order of their
// numbers, and so is N = S if the superblock is not clean. Why: N > S: its superblock never reached
// place 0. N = S, not clean: its superblock did, its other blocks perhaps not. N = S and clean, or
// N < S: a flush has made N durable at its places; to write N once more would undo what came later.
// Both halves may have to be replayed: the flush that makes N durable in the journal is the one
// that makes N - 1 durable at its places. A superblock in the journal never says clean, else a
// half-written N could pass for a closed volume.

/// Whether a transaction makes file data visible that were written since the last flush: they are
/// flushed before its commit block is written. Else one flush makes all of it durable.
enum class FreshData : u8 { no, yes };

/// Not thread-safe: one commit at a time. An object is about 1 MiB large.
class Journal {
 public:
    /// Requires: `superblock` passed read_superblock(), `disk` outlives this, replay() was called
    /// and the superblock was written again since (so that neither half will be replayed).
    Journal(Disk& disk, const format::Superblock& superblock);
    Journal(const Journal&) = delete;
    Journal& operator=(const Journal&) = delete;

    /// Blocks that one transaction can hold.
    u64 capacity_blocks() const { return capacity(half_blocks_); }

    /// Makes `blocks` durable in the journal as transaction number `transaction`. Requires: 1 to
    /// capacity_blocks() blocks, a number above all earlier ones, and write_places() was called for
    /// the transaction before.
    Errc write(u64 transaction, std::span<const SealedBlock> blocks, FreshData fresh_data);

    /// Writes `blocks` to their places without a flush; the next write() or write_superblock()
    /// flushes. Neighbours in the list that are neighbours on disk go out as one write, so sort by
    /// place.
    Errc write_places(std::span<const SealedBlock> blocks);

    /// Whether an error has ended this journal's use.
    bool has_failed() const { return has_failed_; }

    /// Finds the transactions that have to be replayed by the rule above, writes their blocks to
    /// their places and flushes. The highest number; 0 if there is none. Errc::io if the journal
    /// cannot be read or a place not written. Invalid bytes count as no transaction. Read the
    /// superblock again afterwards: it is one of the blocks.
    static Result<u64> replay(Disk& disk, const format::Superblock& superblock);

    /// Called with the place of a logged block and the place in the journal where it lies.
    using Logged = std::function<void(u64 place, u64 in_journal)>;
    /// Finds what replay() would write, and writes nothing: calls `logged` for each block in the
    /// order in which a replay writes them, so the last call for a place is the one that holds.
    /// Returns as replay().
    static Result<u64> find_logged(Disk& disk, const format::Superblock& superblock,
                                   const Logged& logged);

    /// Blocks that a transaction in a half of `half_blocks` blocks can hold.
    static constexpr u64 capacity(u64 half_blocks) {
        const u64 per_descriptor = format::journal_places_max + 1;
        return half_blocks < 3
                   ? 0
                   : half_blocks - 1 - (half_blocks - 1 + per_descriptor - 1) / per_descriptor;
    }

 private:
    // Written at once, possibly by several requests under way.
    static constexpr u64 staging_blocks = 256;

    Errc write_transaction(u64 transaction, std::span<const SealedBlock> blocks,
                           FreshData fresh_data);
    Errc write_staged(u64 offset, u64 count);
    Errc write_runs(std::span<const SealedBlock> blocks);

    Disk& disk_;
    const u64 volume_;
    const u64 offset_;
    const u64 half_blocks_;
    u64 last_transaction_;
    u32 half_ = 0;  // the next write goes there
    bool has_failed_ = false;
    bool awaits_places_ = false;
    format::Block staging_[staging_blocks];
};

}  // namespace warren
