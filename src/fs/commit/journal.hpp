// SPDX-License-Identifier: Apache-2.0
// Makes the blocks of a commit appear on disk all or not at all: they are written to the journal
// first, and to their home locations once the journal is durable. fs/format/journal.hpp has the
// bytes.
//
// For a commit, seal the dirty blocks and the superblock (clean = 0) with a number one above the
// last, write file data to disk, call write(), then write_places() with the same blocks. Blocks
// freed by the commit may be reused once write() has returned ok. After an error the volume must
// not be written any more: all later calls return Errc::io, and the next replay decides whether
// the commit took place.
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

// Rule of replay. Let S be the number of the sound superblock (the first copy if it is sound, else
// the second). Complete transactions N are written to their home locations in the order of their
// numbers:
// - N > S: yes, its superblock never reached place 0.
// - N = S and not clean: yes, its superblock reached place 0, its other blocks perhaps not.
// - N = S and clean, or N < S: no, a flush has made N durable at its home locations, and writing it
//   once more would undo later changes.
// Both halves may have to be replayed, because the flush that makes N durable in the journal is the
// one that makes N - 1 durable at its home locations. A superblock in the journal is never marked
// clean, because otherwise a half-written N could pass for a closed volume.

/// Whether a transaction makes file data visible that were written since the last flush. If so,
/// they are flushed before its commit block is written; if not, one flush at the end is enough.
enum class FreshData : u8 { no, yes };

/// Not thread-safe: one commit at a time. An object has a size of about 1 MiB.
class Journal {
 public:
    /// Requires: `superblock` came from read_superblock(); `disk` outlives this; replay() was
    /// called, and the superblock was written afterwards, so neither half will be replayed.
    Journal(Disk& disk, const format::Superblock& superblock);
    Journal(const Journal&) = delete;
    Journal& operator=(const Journal&) = delete;

    /// How many blocks one transaction can hold.
    u64 capacity_blocks() const { return capacity(half_blocks_); }

    /// Makes `blocks` durable in the journal as transaction number `transaction`. Requires: 1 to
    /// capacity_blocks() blocks, a number above all earlier ones, and that write_places() was
    /// called for the previous transaction.
    Errc write(u64 transaction, std::span<const SealedBlock> blocks, FreshData fresh_data);

    /// Writes `blocks` to their home locations without a flush; the next write() or
    /// write_superblock() flushes. Sort them by place: blocks that are adjacent both in the list
    /// and on disk are written by one request.
    Errc write_places(std::span<const SealedBlock> blocks);

    /// Writes the blocks of all transactions that have to be replayed by the rule above to their
    /// home locations, and flushes. Returns the highest number, or 0 if there is none. Errc::io if
    /// the journal cannot be read or a home location not written. Invalid bytes count as no
    /// transaction. Read the superblock again afterwards: it is one of the blocks.
    static Result<u64> replay(Disk& disk, const format::Superblock& superblock);

    /// Called with the home location of a logged block and its place in the journal.
    using Logged = std::function<void(u64 place, u64 in_journal)>;
    /// Finds the blocks that replay() would write, without writing: calls `logged` for each block
    /// in the order in which a replay writes them, so the last call for a place counts. Returns as
    /// replay().
    static Result<u64> find_logged(Disk& disk, const format::Superblock& superblock,
                                   const Logged& logged);

    /// How many blocks a transaction can hold in a half of `half_blocks` blocks.
    static constexpr u64 capacity(u64 half_blocks) {
        const u64 per_descriptor = format::journal_places_max + 1;
        return half_blocks < 3
                   ? 0
                   : half_blocks - 1 - (half_blocks - 1 + per_descriptor - 1) / per_descriptor;
    }
    /// So many blocks are written at once, so that several requests can be in flight.
    static constexpr u64 staging_blocks = 256;

 private:
    Errc write_transaction(u64 transaction, std::span<const SealedBlock> blocks,
                           FreshData fresh_data);
    Errc write_staged(u64 offset, u64 count);

    Disk& disk_;
    const u64 volume_;
    const u64 offset_;
    const u64 half_blocks_;
    u64 last_transaction_;
    u32 half_ = 0;             // to which the next transaction is written
    bool has_failed_ = false;  // then it cannot be used any more
    bool awaits_places_ = false;
    format::Block staging_[staging_blocks];
};

}  // namespace warren
