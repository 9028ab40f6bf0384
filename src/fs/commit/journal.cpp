// SPDX-License-Identifier: Apache-2.0
// Nothing here allocates. Blocks are read and written through a buffer of fixed size, and a replay
// reads a transaction twice, first to check all of it and then to write it to its home locations,
// instead of holding it in memory.
#include "fs/commit/journal.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "base/crc32c.hpp"
#include "fs/disk/block_io.hpp"

namespace warren {
namespace {

using format::Block;
using format::block_size;
using format::BlockKind;
using format::journal_places_max;
using format::JournalCommit;
using format::JournalDescriptor;
using format::Superblock;

constexpr u64 chunk_blocks = 16;

constexpr u64 descriptors_for(u64 total) {
    return (total + journal_places_max - 1) / journal_places_max;
}

std::span<const std::byte> bytes_of(const Block* blocks, u64 count) {
    return {reinterpret_cast<const std::byte*>(blocks), count * block_size};
}

/// The requests that write at most Journal::staging_blocks blocks to their home locations, block i
/// to place_of(i): one for each run that is contiguous there.
struct HomeWrites {
    template <class PlaceOf>
    HomeWrites(const Block* blocks, u64 count, const PlaceOf& place_of);
    std::span<const DiskWrite> all() const { return std::span(runs).first(run_count); }

    DiskWrite runs[Journal::staging_blocks];
    u64 run_count = 0;
};

template <class PlaceOf>
HomeWrites::HomeWrites(const Block* blocks, u64 count, const PlaceOf& place_of) {
    WARREN_CHECK(count <= Journal::staging_blocks);
    for (u64 i = 0; i < count; ++i) {
        const bool goes_on = i > 0 && place_of(i) == place_of(i - 1) + block_size;
        if (!goes_on) runs[run_count++] = {place_of(i), bytes_of(&blocks[i], 0)};
        DiskWrite& run = runs[run_count - 1];
        run.source = {run.source.data(), run.source.size() + block_size};
    }
}

/// One half of the journal, as described by its first descriptor.
struct Half {
    u64 offset = 0;
    u64 transaction = 0;
    u64 total = 0;
};

/// Reads and checks transactions in the journal of one volume.
class Reader {
 public:
    Reader(Disk& disk, const Superblock& superblock) : disk_(disk), superblock_(superblock) {}

    u64 half_blocks() const { return superblock_.journal_blocks / 2; }

    /// Fills `half` from its first descriptor; transaction 0 if there is none.
    Errc look_at(u64 index, Half& half) {
        half.offset = superblock_.journal_offset + index * half_blocks() * block_size;
        const Errc code = read_descriptor(half, 0);
        if (code == Errc::corrupt) return Errc::ok;
        WARREN_TRY(code);
        half.transaction = descriptor().header.transaction;
        half.total = descriptor().total;
        return Errc::ok;
    }

    /// Errc::corrupt if the transaction is not complete.
    Errc check(const Half& half) {
        const u64 descriptors = descriptors_for(half.total);
        u32 crc = 0;
        for (u64 i = 0; i < descriptors; ++i) {
            WARREN_TRY(read_descriptor(half, i));
            if (descriptor().header.transaction != half.transaction) return Errc::corrupt;
            crc = crc32c(bytes_of(&block_, 1), crc);
        }
        const u64 start = half.offset + descriptors * block_size;
        for (u64 done = 0; done < half.total;) {
            const u64 count = std::min(half.total - done, chunk_blocks);
            WARREN_TRY(read_chunk(start + done * block_size, count));
            crc = crc32c(bytes_of(chunk_, count), crc);
            done += count;
        }
        const u64 place = start + half.total * block_size;
        WARREN_TRY(read_block(place, BlockKind::journal_commit));
        const auto& commit = reinterpret_cast<const JournalCommit&>(block_);
        const bool is_complete = commit.header.transaction == half.transaction &&
                                 commit.total == half.total && commit.crc_of_blocks == crc;
        return is_complete ? Errc::ok : Errc::corrupt;
    }

    /// Writes a transaction that passed check() to its home locations.
    Errc apply(const Half& half) {
        const auto write = [&](u64 from) {
            for (u64 done = 0; done < descriptor().count;) {
                const u64 count = std::min(descriptor().count - done, chunk_blocks);
                WARREN_TRY(read_chunk(from + done * block_size, count));
                const u64* const places = descriptor().places + done;
                const HomeWrites writes(chunk_, count, [&](u64 i) { return places[i]; });
                // In this order, so that the last of two blocks with one place counts.
                for (const DiskWrite& run : writes.all())
                    WARREN_TRY(disk_.write(run.offset, run.source));
                done += count;
            }
            return Errc::ok;
        };
        WARREN_TRY(for_each_descriptor(half, write));
        return disk_.flush();
    }

    /// Reports where the blocks of a transaction that passed check() lie.
    Errc tell(const Half& half, const Journal::Logged& logged) {
        return for_each_descriptor(half, [&](u64 from) {
            for (u64 k = 0; k < descriptor().count; ++k)
                logged(descriptor().places[k], from + k * block_size);
            return Errc::ok;
        });
    }

 private:
    /// Reads each descriptor and calls `visit` with the place of its first logged block.
    template <class Visit>
    Errc for_each_descriptor(const Half& half, const Visit& visit) {
        const u64 descriptors = descriptors_for(half.total);
        u64 from = half.offset + descriptors * block_size;
        for (u64 i = 0; i < descriptors; ++i) {
            WARREN_TRY(read_descriptor(half, i));
            WARREN_TRY(visit(from));
            from += descriptor().count * block_size;
        }
        return Errc::ok;
    }

    const JournalDescriptor& descriptor() const {
        return reinterpret_cast<const JournalDescriptor&>(block_);
    }

    bool is_good_place(u64 place) const {
        const u64 journal_end =
            superblock_.journal_offset + superblock_.journal_blocks * block_size;
        return place % block_size == 0 && place < superblock_.size_bytes &&
               (place < superblock_.journal_offset || place >= journal_end);
    }

    Errc read_block(u64 place, BlockKind kind) {
        return read_checked(disk_, place, kind, superblock_.header.volume, block_);
    }

    /// Reads descriptor `index` and checks all that can be checked without other blocks.
    Errc read_descriptor(const Half& half, u64 index) {
        const u64 place = half.offset + index * block_size;
        WARREN_TRY(read_block(place, BlockKind::journal_descriptor));
        const JournalDescriptor& found = descriptor();
        const bool is_total_good = found.header.transaction != 0 && found.index == index &&
                                   found.total != 0 &&
                                   found.total <= Journal::capacity(half_blocks()) &&
                                   (half.total == 0 || found.total == half.total);
        if (!is_total_good || index >= descriptors_for(found.total)) return Errc::corrupt;
        const u64 left = found.total - index * journal_places_max;
        if (found.count != std::min<u64>(left, journal_places_max)) return Errc::corrupt;
        for (u64 i = 0; i < found.count; ++i) {
            if (!is_good_place(found.places[i])) return Errc::corrupt;
        }
        return Errc::ok;
    }

    Errc read_chunk(u64 offset, u64 count) {
        return disk_.read(offset, std::as_writable_bytes(std::span(chunk_, count)));
    }

    Disk& disk_;
    const Superblock& superblock_;
    Block block_;
    Block chunk_[chunk_blocks];
};

/// Whether a complete transaction has to be replayed, by the rule in journal.hpp.
bool is_wanted(u64 transaction, const Superblock& superblock) {
    const u64 known = superblock.header.transaction;
    return transaction > known || (transaction == known && superblock.clean == 0);
}

/// Calls `visit(reader, half)` for each transaction that has to be replayed, in the order of their
/// numbers. Returns the highest number, or 0 if there is none.
template <class Visit>
Result<u64> for_each_wanted(Disk& disk, const Superblock& superblock, const Visit& visit) {
    Reader reader(disk, superblock);
    Half halves[2];
    for (u64 i = 0; i < 2; ++i)
        WARREN_TRY(reader.look_at(i, halves[i]));
    if (halves[0].transaction > halves[1].transaction) std::swap(halves[0], halves[1]);
    u64 newest = 0;
    for (const Half& half : halves) {
        // Obsolete transactions are not checked, which keeps opening a closed volume fast.
        if (half.transaction == 0 || !is_wanted(half.transaction, superblock)) continue;
        const Errc code = reader.check(half);
        if (code == Errc::corrupt) continue;
        WARREN_TRY(code);
        WARREN_TRY(visit(reader, half));
        newest = half.transaction;
    }
    return newest;
}

}  // namespace

Journal::Journal(Disk& disk, const format::Superblock& superblock)
    : disk_(disk),
      volume_(superblock.header.volume),
      offset_(superblock.journal_offset),
      half_blocks_(superblock.journal_blocks / 2),
      last_transaction_(superblock.header.transaction) {
    WARREN_CHECK(capacity_blocks() > 0);
}

Errc Journal::write_staged(u64 offset, u64 count) {
    return disk_.write(offset, bytes_of(staging_, count));
}

Errc Journal::write_transaction(u64 transaction, std::span<const SealedBlock> blocks,
                                FreshData fresh_data) {
    const u64 descriptors = descriptors_for(blocks.size());
    const u64 start = offset_ + half_ * half_blocks_ * block_size;
    const u64 end = start + (descriptors + blocks.size()) * block_size;
    u32 crc = 0;
    u64 staged = 0;
    u64 staged_at = start;
    for (u64 i = 0; i < descriptors + blocks.size(); ++i) {
        Block& target = staging_[staged];
        if (i < descriptors) {
            const u64 first = i * journal_places_max;
            std::memset(&target, 0, sizeof target);
            auto& descriptor = reinterpret_cast<JournalDescriptor&>(target);
            descriptor.header.kind = static_cast<u16>(BlockKind::journal_descriptor);
            descriptor.total = blocks.size();
            descriptor.index = i;
            descriptor.count =
                static_cast<u32>(std::min<u64>(blocks.size() - first, journal_places_max));
            for (u64 k = 0; k < descriptor.count; ++k) {
                descriptor.places[k] = blocks[first + k].place;
            }
            format::seal_block(target, volume_, start + i * block_size, transaction);
        } else {
            std::memcpy(&target, blocks[i - descriptors].block, sizeof target);
        }
        crc = crc32c(bytes_of(&target, 1), crc);
        if (++staged == staging_blocks) {
            WARREN_TRY(write_staged(staged_at, staged));
            staged_at += staged * block_size;
            staged = 0;
        }
    }
    if (staged > 0) WARREN_TRY(write_staged(staged_at, staged));
    // No flush is needed for the blocks of the transaction: if they did not reach the disk, the
    // checksum in the commit block reveals it. File data have no checksum, so they are flushed.
    if (fresh_data == FreshData::yes) WARREN_TRY(disk_.flush());

    std::memset(&staging_[0], 0, sizeof staging_[0]);
    auto& commit = reinterpret_cast<JournalCommit&>(staging_[0]);
    commit.header.kind = static_cast<u16>(BlockKind::journal_commit);
    commit.total = blocks.size();
    commit.crc_of_blocks = crc;
    format::seal_block(staging_[0], volume_, end, transaction);
    WARREN_TRY(write_staged(end, 1));
    return disk_.flush();
}

Errc Journal::write(u64 transaction, std::span<const SealedBlock> blocks, FreshData fresh_data) {
    if (has_failed_) return Errc::io;
    WARREN_CHECK(!blocks.empty() && blocks.size() <= capacity_blocks());
    WARREN_CHECK(transaction > last_transaction_ && !awaits_places_);
    for (const SealedBlock& sealed : blocks) {
        if (sealed.place != format::superblock_offset) continue;
        WARREN_CHECK(reinterpret_cast<const Superblock&>(*sealed.block).clean == 0);
    }
    const Errc code = write_transaction(transaction, blocks, fresh_data);
    has_failed_ = code != Errc::ok;
    last_transaction_ = transaction;
    awaits_places_ = true;
    half_ ^= 1;
    return code;
}

Errc Journal::write_places(std::span<const SealedBlock> blocks) {
    if (has_failed_) return Errc::io;
    Errc code = Errc::ok;
    for (u64 first = 0; first < blocks.size() && code == Errc::ok;) {
        const auto some = blocks.subspan(first, std::min(staging_blocks, blocks.size() - first));
        for (u64 i = 0; i < some.size(); ++i)
            std::memcpy(&staging_[i], some[i].block, sizeof(Block));
        const HomeWrites writes(staging_, some.size(), [&](u64 i) { return some[i].place; });
        code = disk_.write_many(writes.all());
        first += some.size();
    }
    has_failed_ = code != Errc::ok;
    awaits_places_ = false;
    return code;
}

Result<u64> Journal::replay(Disk& disk, const format::Superblock& superblock) {
    return for_each_wanted(disk, superblock,
                           [](Reader& reader, const Half& half) { return reader.apply(half); });
}

Result<u64> Journal::find_logged(Disk& disk, const format::Superblock& superblock,
                                 const Logged& logged) {
    return for_each_wanted(disk, superblock, [&](Reader& reader, const Half& half) {
        return reader.tell(half, logged);
    });
}

}  // namespace warren
