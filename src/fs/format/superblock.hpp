// SPDX-License-Identifier: Apache-2.0
// The superblock: identity of the volume, where its parts lie and whether it was closed cleanly.
// Invariant: at least one of the two copies passes check_block(). The first is the current one; the
// second is written when the volume is made, grown, opened for writing or closed.
#pragma once

#include <cstring>

#include "fs/format/layout.hpp"

namespace warren::format {

inline constexpr u64 magic = 0x0a314e4552524157;  // "WARREN1\n"
inline constexpr u32 version_major = 1;
inline constexpr u32 version_minor = 0;
inline constexpr u64 superblock_offset = 0;
inline constexpr u64 superblock_copy_offset = frame_size - block_size;

/// Inodes get their generations from one counter. It always stays less than this margin above the
/// counter in the durable superblock, even in transactions that a crash loses, and the next opening
/// for writing continues from the durable counter plus this margin. So no inode number ever gets
/// the same generation twice.
inline constexpr u64 generation_margin = 65536;

/// Feature bits that this code knows. Unknown compatible bits are ignored; a volume with an unknown
/// read-only compatible bit is opened for reading only, one with an unknown incompatible bit not
/// at all.
inline constexpr u64 feature_dedup = 1;          // compatible: see FormatOptions::dedup
inline constexpr u64 feature_shared_blocks = 1;  // read-only compatible
inline constexpr u64 read_only_compatible_known = feature_shared_blocks;
inline constexpr u64 incompatible_known = 0;

struct alignas(block_size) Superblock {
    BlockHeader header;
    u64 magic;
    u32 version_major;
    u32 version_minor;
    u64 features_compatible;
    u64 features_read_only_compatible;
    u64 features_incompatible;
    u8 uuid[16];
    u8 label[32];  // UTF-8, zero padded
    u64 size_bytes;
    u64 frame_count;
    u64 hash_key[2];         // key of the name hash, random for each volume
    u64 frame_table_offset;  // the table is contiguous
    u64 frame_table_blocks;
    u64 journal_offset;  // two halves of equal size
    u64 journal_blocks;
    u64 root_inode;
    u64 orphan_directory;  // hidden directory of inodes without a name
    i64 created;           // nanoseconds since 1970
    u32 clean;             // 1 after a clean close; 0 while open for writing
    u32 zero;
    // From here on: state that every commit updates.
    u64 metadata_frames_end;  // every metadata and inode frame lies below this frame number
    // Every data frame lies at or above this frame number. Below it, all frames from
    // metadata_frames_end on are free.
    u64 data_frames_begin;
    u64 blocks_used;  // 4 KiB blocks in use, all kinds
    u64 inodes_used;
    u64 generation;  // see generation_margin
    u8 padding[3824];
};
static_assert(sizeof(Superblock) == block_size);

/// The number of the volume in the headers of its blocks: the first half of its UUID.
inline u64 volume_of(const Superblock& superblock) {
    u64 volume;
    std::memcpy(&volume, superblock.uuid, sizeof volume);
    return volume;
}

}  // namespace warren::format
