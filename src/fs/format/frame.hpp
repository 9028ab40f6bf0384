// SPDX-License-Identifier: Apache-2.0
// The frame table: the kind of each 2 MiB frame and which of its 512 blocks are in use. Metadata
// frames are taken from the start of the volume, which keeps them dense, data frames from the end.
//
// Invariant: a block is in use if and only if its bit is set here. A table block that is all zero
// was never written and stands for 31 free frames, so mkfs need not write the whole table.
#pragma once

#include "fs/format/layout.hpp"

namespace warren::format {

enum class FrameKind : u64 {
    free = 0,
    system = 1,    // superblocks, frame table, journal
    inodes = 2,    // block 0 is the inode bitmap, the other 511 hold 16 inodes each
    metadata = 3,  // 4 KiB metadata blocks
    data = 4,      // file contents
};

struct FrameEntry {
    u64 kind;
    u64 used[8];     // bit b of word w: block 64 * w + b
    u64 references;  // pointer to the ReferenceBlock; 0: no block of the frame has ever been shared
    u64 zero[6];
};
static_assert(sizeof(FrameEntry) == 128);

/// Whether blocks of such a frame are metadata, except for those of the frame table.
WARREN_HD constexpr bool holds_metadata(FrameKind kind) {
    return kind == FrameKind::inodes || kind == FrameKind::metadata;
}

inline constexpr u32 frames_per_table_block = 31;

/// The blocks of a frame table for `frames` frames.
WARREN_HD constexpr u64 table_blocks_for(u64 frames) {
    return (frames + frames_per_table_block - 1) / frames_per_table_block;
}

struct FrameTableBlock {
    BlockHeader header;
    u8 padding[80];
    FrameEntry entries[frames_per_table_block];
};
static_assert(sizeof(FrameTableBlock) == block_size);

/// For each block of a data frame the number of extents that refer to it, less one; 0 for a free
/// block. The owner in the header is the number of the frame.
struct ReferenceBlock {
    BlockHeader header;
    u8 padding[2000];
    union {
        u32 extra[blocks_per_frame];
        u64 pairs[blocks_per_frame / 2];  // a block of even number is the low half
    };
};
static_assert(sizeof(ReferenceBlock) == block_size);
static_assert(offsetof(ReferenceBlock, extra) == 2048);

/// First block of an inode frame. Slot s of frame f is inode number f * 8192 + s; slots 0-15 are
/// this block itself and always in use. `held` exists in memory only and is zero on disk: a set bit
/// is the number of a removed inode that the kernel still refers to.
struct InodeBitmap {
    BlockHeader header;
    u8 padding[16];
    u64 used[inodes_per_frame / 64];
    u8 padding2[960];
    u64 held[inodes_per_frame / 64];
    u8 padding3[1024];
};
static_assert(sizeof(InodeBitmap) == block_size);
static_assert(offsetof(InodeBitmap, held) == 2048);

}  // namespace warren::format
