// SPDX-License-Identifier: Apache-2.0
// Reads volumes by the text of the format alone, without the code that opens them: the reference
// for the tests of make, grow and the superblock.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <memory>
#include <vector>

#include "fs/admin/make_volume.hpp"
#include "fs/commit/journal.hpp"
#include "fs/commit/superblock_io.hpp"
#include "fs/format/check_block.hpp"
#include "fs/format/frame.hpp"
#include "fs/format/inode.hpp"
#include "tests/support/memory_disk.hpp"

namespace warren::raw_volume {

using format::Block;
using format::block_size;
using format::BlockKind;
using format::frame_size;
using format::FrameKind;
using format::Inode;
using format::Superblock;

inline std::unique_ptr<MemoryDisk> make_volume_disk(u64 size_bytes, u64 disk_bytes = 0) {
    auto disk = std::make_unique<MemoryDisk>(disk_bytes == 0 ? size_bytes : disk_bytes);
    const Failure failure = make_volume_on(*disk, "image", size_bytes, "label");
    EXPECT_EQ(failure.code, Errc::ok) << failure.message;
    return disk;
}

inline Failure load_superblock(Disk& disk, Superblock& superblock) {
    const Failure failure = read_superblock(disk, "some/image", superblock);
    if (failure.code != Errc::ok) {
        EXPECT_TRUE(failure.message.starts_with("some/image: ")) << failure.message;
        EXPECT_EQ(failure.message.find('\n'), std::string::npos);
        EXPECT_NE(failure.message.find(';'), std::string::npos) << "says not what to do";
    }
    return failure;
}

inline Block read_block(Disk& disk, u64 place) {
    Block block{};
    EXPECT_EQ(disk.read(place, std::as_writable_bytes(std::span(&block, 1))), Errc::ok);
    return block;
}

/// The frame table's block groups by kind; blocks in use are counted bit by bit.
struct Census {
    u64 frames[5] = {};
    u64 blocks_used = 0;
    std::vector<u64> system;
};

inline Census take_census(Disk& disk, const Superblock& superblock) {
    Census census;
    for (u64 i = 0; i < superblock.frame_table_blocks; ++i) {
        const u64 place = superblock.frame_table_offset + i * block_size;
        const Block block = read_block(disk, place);
        static const Block untouched{};
        if (std::memcmp(&block, &untouched, sizeof block) == 0) continue;
        EXPECT_EQ(
            format::check_block(block, BlockKind::frame_table, superblock.header.volume, place),
            Errc::ok)
            << "table block " << i;
        const auto& table = reinterpret_cast<const format::FrameTableBlock&>(block);
        for (u64 k = 0; k < format::frames_per_table_block; ++k) {
            const format::FrameEntry& entry = table.entries[k];
            const u64 frame = i * format::frames_per_table_block + k;
            if (entry.kind == 0) continue;
            EXPECT_LT(frame, superblock.frame_count);
            EXPECT_LE(entry.kind, 4u);
            EXPECT_TRUE(frame < superblock.metadata_frames_end ||
                        frame >= superblock.data_frames_begin)
                << "frame " << frame << " is in use between the marks";
            ++census.frames[entry.kind % 5];
            if (entry.kind == static_cast<u64>(FrameKind::system)) census.system.push_back(frame);
            for (const u64 word : entry.used) {
                census.blocks_used += static_cast<u64>(std::popcount(word));
            }
        }
    }
    return census;
}

inline void expect_directory(Disk& disk, const Superblock& superblock, u64 number, u32 mode) {
    const u64 place = number * format::inode_size / block_size * block_size;
    const Block block = read_block(disk, place);
    const auto* inodes = reinterpret_cast<const Inode*>(&block);
    const Inode& inode = inodes[number % format::inodes_per_block];
    EXPECT_TRUE(format::inode_is_sound(inode, superblock.header.volume, number));
    EXPECT_EQ(inode.mode, mode);
    EXPECT_EQ(inode.links, 2u);
    EXPECT_EQ(inode.parent, number);
    EXPECT_EQ(inode.generation, 1u);
    EXPECT_EQ(inode.area_kind, static_cast<u8>(format::AreaKind::tree));
    EXPECT_EQ(inode.area_count + inode.height, 0);
    EXPECT_GT(inode.born, 0);
    for (u32 i = 2; i < format::inodes_per_block; ++i) {
        EXPECT_TRUE(format::inode_is_sound(inodes[i], superblock.header.volume, number + i));
    }
}

/// All that the format specifies about a volume without files.
inline void expect_empty_volume(Disk& disk, u64 size_bytes) {
    Superblock superblock{};
    const Failure failure = load_superblock(disk, superblock);
    ASSERT_EQ(failure.code, Errc::ok) << failure.message;
    EXPECT_FALSE(must_stay_read_only(superblock));
    EXPECT_EQ(superblock.size_bytes, size_bytes / frame_size * frame_size);
    EXPECT_EQ(superblock.clean, 1u);
    EXPECT_EQ(superblock.inodes_used, 2u);
    const Census census = take_census(disk, superblock);
    EXPECT_EQ(census.blocks_used, superblock.blocks_used);
    EXPECT_EQ(census.frames[static_cast<u64>(FrameKind::inodes)], 1u);
    EXPECT_EQ(census.frames[static_cast<u64>(FrameKind::data)], 0u);
    const u64 inode_frame = census.system.size();
    for (u64 i = 0; i < inode_frame; ++i)
        EXPECT_EQ(census.system[i], i);
    EXPECT_EQ(superblock.metadata_frames_end, inode_frame + 1);
    EXPECT_EQ(superblock.data_frames_begin, superblock.frame_count);
    const u64 end = inode_frame * frame_size;
    EXPECT_LE(superblock.frame_table_offset + superblock.frame_table_blocks * block_size, end);
    EXPECT_LE(superblock.journal_offset + superblock.journal_blocks * block_size, end);

    const Block bitmap = read_block(disk, end);
    EXPECT_EQ(format::check_block(bitmap, BlockKind::inode_bitmap, superblock.header.volume, end),
              Errc::ok);
    EXPECT_EQ(reinterpret_cast<const format::InodeBitmap&>(bitmap).used[0], 0x3ffffu);
    EXPECT_EQ(superblock.root_inode, inode_frame * format::inodes_per_frame + 16);
    EXPECT_EQ(superblock.orphan_directory, superblock.root_inode + 1);
    expect_directory(disk, superblock, superblock.root_inode, 040755);
    expect_directory(disk, superblock, superblock.orphan_directory, 040700);
    const Result<u64> replayed = Journal::find_logged(disk, superblock, [](u64, u64) {});
    EXPECT_TRUE(replayed);
    EXPECT_EQ(*replayed, 0u);
}

}  // namespace warren::raw_volume
