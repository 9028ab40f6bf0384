// SPDX-License-Identifier: Apache-2.0
// Grows a volume that is not open by frames at its end. Journal and contents stay where they are.
// Only the frame table may have to move, to the first of the new frames.
//
// Invariant: until the superblock is written, nothing that the old superblock refers to is changed,
// so a crash at any moment leaves either the old volume or the grown one.
#include <algorithm>
#include <cstring>

#include "base/quote.hpp"
#include "base/zeros.hpp"
#include "fs/admin/make_volume.hpp"
#include "fs/admin/volume_layout.hpp"
#include "fs/commit/journal.hpp"
#include "fs/commit/superblock_io.hpp"
#include "fs/disk/block_io.hpp"
#include "fs/disk/file_disk.hpp"
#include "fs/format/frame.hpp"
#include "warren/volume.hpp"

namespace warren {
namespace {

using format::Block;
using format::block_size;
using format::frame_size;
using format::FrameKind;
using format::Superblock;
using format::table_blocks_for;

Failure grow_failure(const std::string& path, Errc code) {
    const char* reason = code == Errc::no_space ? "no space left" : "I/O error";
    return {code, path + ": cannot be grown (" + reason +
                      "), it keeps its size; check the device and the system's log"};
}

/// Writes the frame table to its new place, block by block: the old entries with some frames
/// changed.
class TableMove {
 public:
    TableMove(Disk& disk, const Superblock& old, const Superblock& grown)
        : disk_(disk), old_(old), grown_(grown) {}

    /// The frames whose kind changes: those that hold the new table become system frames, those
    /// that hold only the old table become free.
    u64 new_first() const { return grown_.frame_table_offset / frame_size; }
    u64 new_count() const { return table_frames_for(grown_.frame_table_blocks); }
    u64 old_first() const { return old_.frame_table_offset / frame_size; }
    u64 old_count() const {
        return old_first() == 0 ? 0 : divide_up(old_.frame_table_blocks, format::blocks_per_frame);
    }

    /// Errc::corrupt if a block of the old table is damaged.
    Errc run(u64 transaction) {
        for (u64 i = 0; i < grown_.frame_table_blocks; ++i) {
            WARREN_TRY(load(i));
            edit(i);
            if (is_all_zero(block_.bytes())) continue;
            const u64 place = grown_.frame_table_offset + i * block_size;
            WARREN_TRY(write_sealed(disk_, place, format::BlockKind::frame_table,
                                    grown_.header.volume, transaction, block_));
        }
        return Errc::ok;
    }

 private:
    Errc load(u64 index) {
        std::memset(&block_, 0, sizeof block_);
        if (index >= table_blocks_for(old_.frame_count)) return Errc::ok;
        const u64 place = old_.frame_table_offset + index * block_size;
        WARREN_TRY(disk_.read(place, block_.bytes()));
        if (is_all_zero(block_.bytes())) return Errc::ok;
        return format::check_block(block_, format::BlockKind::frame_table, old_.header.volume,
                                   place);
    }

    void edit(u64 index) {
        auto& table = reinterpret_cast<format::FrameTableBlock&>(block_);
        const u64 begin = index * format::frames_per_table_block;
        for (u64 i = 0; i < format::frames_per_table_block; ++i) {
            const u64 frame = begin + i;
            if (frame - old_first() < old_count()) table.entries[i] = {};
            if (frame - new_first() < new_count()) {
                table.entries[i] = {};
                mark_whole_frame(table.entries[i], FrameKind::system);
            }
        }
    }

    Disk& disk_;
    const Superblock& old_;
    const Superblock& grown_;
    Block block_;
};

/// Reads the superblock and replays the journal. `transaction` becomes the highest number in use.
Failure load_volume(Disk& disk, const std::string& path, Superblock& superblock, u64& transaction) {
    WARREN_TRY(read_superblock(disk, path, superblock));
    if (must_stay_read_only(superblock)) {
        return {Errc::not_supported, path +
                                         ": uses features that this program cannot write; use a "
                                         "newer warren"};
    }
    const Result<u64> replayed = Journal::replay(disk, superblock);
    if (!replayed) return grow_failure(path, replayed.code());
    if (*replayed != 0) WARREN_TRY(read_superblock(disk, path, superblock));
    transaction = std::max(*replayed, superblock.header.transaction);
    return {};
}

/// Fills in the superblock of the grown volume. Fails if the new frames cannot hold the frame table
/// that they need.
Failure plan_growth(const std::string& path, const Superblock& old, u64 frames, Superblock& grown) {
    grown = old;
    grown.frame_count = frames;
    grown.size_bytes = frames * frame_size;
    grown.frame_table_blocks = table_blocks_for(frames);
    const bool is_in_frame_0 = old.frame_table_offset < frame_size;
    const u64 room = is_in_frame_0 ? table_blocks_in_frame_0
                                   : divide_up(old.frame_table_blocks, format::blocks_per_frame) *
                                         format::blocks_per_frame;
    if (grown.frame_table_blocks <= room) {
        grown.frame_table_blocks = std::max(grown.frame_table_blocks, old.frame_table_blocks);
        // All frames between metadata_frames_end and data_frames_begin are free, so only a table
        // that stays in place allows raising data_frames_begin to the new end.
        if (old.data_frames_begin == old.frame_count) grown.data_frames_begin = frames;
        return {};
    }
    const u64 table_frames = table_frames_for(grown.frame_table_blocks);
    if (frames - old.frame_count < table_frames) {
        const u64 needed = (old.frame_count + table_frames + 1) * frame_size;
        return {Errc::no_space, path +
                                    ": the new part is too small for the frame table it needs; "
                                    "grow it to at least " +
                                    std::to_string(needed) + " bytes"};
    }
    grown.frame_table_offset = old.frame_count * frame_size;
    grown.blocks_used += table_frames * format::blocks_per_frame;
    if (!is_in_frame_0) grown.blocks_used -= room;
    return {};
}

/// Writes everything that the grown superblock refers to, and then that superblock.
Errc grow(Disk& disk, const Superblock& old, Superblock& grown, u64 transaction) {
    if (grown.frame_table_offset == old.frame_table_offset) {
        const u64 more = grown.frame_table_blocks - old.frame_table_blocks;
        WARREN_TRY(disk.zero(old.frame_table_offset + old.frame_table_blocks * block_size,
                             more * block_size));
    } else {
        TableMove move(disk, old, grown);
        WARREN_TRY(disk.zero(grown.frame_table_offset, move.new_count() * frame_size));
        WARREN_TRY(move.run(transaction));
    }
    return write_superblock(disk, grown, transaction);
}

Failure check_growth(const std::string& path, const Superblock& old, u64 size_bytes) {
    if (size_bytes / frame_size < old.frame_count) {
        return {Errc::invalid, path + ": has " + std::to_string(old.size_bytes) +
                                   " bytes and cannot be made smaller; use a larger --size"};
    }
    if (size_bytes > format::volume_size_max) {
        return {Errc::invalid, path + ": a volume can have at most 16T; use a smaller --size"};
    }
    return {};
}

}  // namespace

Failure grow_volume_on(Disk& disk, const std::string& path, u64 size_bytes) {
    Superblock old;
    Superblock grown;
    u64 transaction = 0;
    WARREN_TRY(load_volume(disk, path, old, transaction));
    WARREN_TRY(check_growth(path, old, size_bytes));
    const u64 frames = size_bytes / frame_size;
    if (frames == old.frame_count) return {};
    WARREN_TRY(plan_growth(path, old, frames, grown));
    const Errc code = grow(disk, old, grown, transaction + 1);
    if (code == Errc::corrupt) {
        return {code, path + ": its frame table is damaged, it keeps its size; run 'warren fsck'"};
    }
    return code == Errc::ok ? Failure{} : grow_failure(path, code);
}

Failure grow_volume(const std::string& path, u64 size_bytes) {
    Failure failure;
    auto disk = FileDisk::open(path, OpenMode::read_write, failure);
    if (!disk) return failure;
    const std::string shown = quoted_if_needed(path);
    Superblock present;
    WARREN_TRY(read_superblock(*disk, shown, present));
    if (size_bytes == 0) size_bytes = std::min(disk->size_bytes(), format::volume_size_max);
    WARREN_TRY(check_growth(shown, present, size_bytes));
    if (size_bytes > disk->size_bytes()) {
        const Errc code = disk->is_device() ? Errc::no_space : disk->resize(size_bytes);
        if (code != Errc::ok) {
            return {code, shown + ": cannot be made " + std::to_string(size_bytes) +
                              " bytes large; enlarge the device or use a smaller --size"};
        }
    }
    return grow_volume_on(*disk, shown, size_bytes);
}

}  // namespace warren
