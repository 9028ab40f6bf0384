// SPDX-License-Identifier: Apache-2.0
// The layout of a new volume. Frame 0 holds both superblocks, and the frame table and the journal
// if they fit into it; otherwise each of these gets whole frames, the table before the journal.
//
// Invariant: the system frames are the first frames of a new volume, without a gap.
#pragma once

#include <algorithm>

#include "fs/format/frame.hpp"
#include "fs/format/journal.hpp"
#include "fs/format/superblock.hpp"

namespace warren {

inline constexpr u64 table_offset_in_frame_0 = format::block_size;
inline constexpr u64 table_blocks_in_frame_0 = 254;
inline constexpr u64 journal_block_in_frame_0 = 255;
inline constexpr u64 journal_blocks_in_frame_0 = 256;
inline constexpr u64 own_journal_from_bytes = 64 * mib;
inline constexpr u64 journal_bytes_min = 2 * mib;
// A clone of a million files fits one transaction, which is half of it.
inline constexpr u64 journal_bytes_max = 3 * gib / 2;
static_assert(journal_blocks_in_frame_0 >= format::journal_blocks_min);
static_assert(journal_bytes_min / format::block_size >= format::journal_blocks_min);

constexpr u64 divide_up(u64 value, u64 by) {
    return (value + by - 1) / by;
}

/// Whole frames for a table of `blocks` blocks; 0 if it fits into frame 0.
constexpr u64 table_frames_for(u64 blocks) {
    return blocks <= table_blocks_in_frame_0 ? 0 : divide_up(blocks, format::blocks_per_frame);
}

/// Fills in size, frame table and journal of a volume of `size_bytes`; returns the number of system
/// frames.
inline u64 lay_out(format::Superblock& superblock, u64 size_bytes) {
    superblock.frame_count = size_bytes / format::frame_size;
    superblock.size_bytes = superblock.frame_count * format::frame_size;
    superblock.frame_table_blocks = format::table_blocks_for(superblock.frame_count);
    const u64 table_frames = table_frames_for(superblock.frame_table_blocks);
    superblock.frame_table_offset =
        table_frames == 0 ? table_offset_in_frame_0 : format::frame_size;
    if (size_bytes < own_journal_from_bytes) {
        superblock.journal_offset = journal_block_in_frame_0 * format::block_size;
        superblock.journal_blocks = journal_blocks_in_frame_0;
        return 1 + table_frames;
    }
    const u64 journal_bytes = std::clamp(size_bytes / 32 / format::frame_size * format::frame_size,
                                         journal_bytes_min, journal_bytes_max);
    superblock.journal_offset = (1 + table_frames) * format::frame_size;
    superblock.journal_blocks = journal_bytes / format::block_size;
    return 1 + table_frames + journal_bytes / format::frame_size;
}

/// Marks all blocks of a frame as used, as they always are in system and inode frames.
inline void mark_whole_frame(format::FrameEntry& entry, format::FrameKind kind) {
    entry.kind = static_cast<u64>(kind);
    std::fill_n(entry.used, 8, ~u64{0});
}

}  // namespace warren
