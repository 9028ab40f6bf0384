// SPDX-License-Identifier: Apache-2.0
// Growing preserves the contents of the frame table, wherever the table lies before and after;
// after a power cut or an I/O error the disk holds the old volume or the grown one.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "fs/admin/make_volume.hpp"
#include "tests/fs/volume/raw_volume.hpp"
#include "tests/support/fault_disk.hpp"

namespace warren::grow_volume_test {
namespace {

using namespace raw_volume;

void use_frames(Disk& disk, u64 seed) {
    Superblock superblock{};
    ASSERT_EQ(load_superblock(disk, superblock).code, Errc::ok);
    Random random(seed);
    for (int i = 0; i < 10; ++i) {
        const u64 first = superblock.metadata_frames_end;
        const u64 frame = first + random.below(superblock.frame_count - first);
        const u64 place =
            superblock.frame_table_offset + frame / format::frames_per_table_block * block_size;
        Block block = read_block(disk, place);
        auto& table = reinterpret_cast<format::FrameTableBlock&>(block);
        format::FrameEntry& entry = table.entries[frame % format::frames_per_table_block];
        if (entry.kind != 0) continue;
        table.header.kind = static_cast<u16>(BlockKind::frame_table);
        entry.kind = static_cast<u64>(FrameKind::data);
        entry.used[3] = random.next() | 1;
        superblock.blocks_used += static_cast<u64>(std::popcount(entry.used[3]));
        superblock.data_frames_begin = std::min(superblock.data_frames_begin, frame);
        format::seal_block(block, superblock.header.volume, place, 2);
        ASSERT_EQ(disk.write(place, std::as_bytes(std::span(&block, 1))), Errc::ok);
    }
    ASSERT_EQ(write_superblock(disk, superblock, superblock.header.transaction + 1), Errc::ok);
}

void expect_grown(Disk& disk, u64 size_bytes, const Census& before) {
    Superblock superblock{};
    ASSERT_EQ(load_superblock(disk, superblock).code, Errc::ok);
    EXPECT_EQ(superblock.size_bytes, size_bytes);
    const Census census = take_census(disk, superblock);
    EXPECT_EQ(census.blocks_used, superblock.blocks_used);
    const u64 data = static_cast<u64>(FrameKind::data);
    EXPECT_EQ(census.frames[data], before.frames[data]);
    const u64 table_end =
        superblock.frame_table_offset + superblock.frame_table_blocks * block_size;
    const u64 first = superblock.frame_table_offset / frame_size;
    for (u64 frame = first; frame * frame_size < table_end; ++frame) {
        EXPECT_NE(std::ranges::find(census.system, frame), census.system.end()) << frame;
    }
}

TEST(GrowVolume, tableGrowsInPlaceMovesAndMovesAgain) {
    constexpr u64 in_frame_0 = 254 * 31 * frame_size;  // 7874 frames
    auto disk = make_volume_disk(1 * gib, 16 * tib);
    u64 transactions = 1;
    for (const u64 size : {2 * gib, in_frame_0, in_frame_0 + frame_size, 31 * gib, 33 * gib,
                           500 * gib, 1 * tib, 16 * tib}) {
        SCOPED_TRACE(testing::Message() << size << " bytes");
        use_frames(*disk, size);
        Superblock superblock{};
        ASSERT_EQ(load_superblock(*disk, superblock).code, Errc::ok);
        const Census before = take_census(*disk, superblock);
        const Failure failure = grow_volume_on(*disk, "image", size);
        ASSERT_EQ(failure.code, Errc::ok) << failure.message;
        expect_grown(*disk, size, before);
        ASSERT_EQ(load_superblock(*disk, superblock).code, Errc::ok);
        EXPECT_EQ(superblock.header.transaction, transactions += 2);
    }
    EXPECT_LE(disk->resident_bytes(), 32 * mib);
}

TEST(GrowVolume, refusesAGrowthThatTheTableWouldEat) {
    constexpr u64 two_table_frames = 512 * 31 * frame_size;
    auto disk = make_volume_disk(two_table_frames, 1 * tib);
    const Failure failure = grow_volume_on(*disk, "image", two_table_frames + frame_size);
    EXPECT_EQ(failure.code, Errc::no_space);
    EXPECT_NE(failure.message.find(std::to_string(two_table_frames + 3 * frame_size)),
              std::string::npos)
        << failure.message;
    EXPECT_EQ(grow_volume_on(*disk, "image", two_table_frames + 3 * frame_size).code, Errc::ok);
}

TEST(GrowVolume, damagedTableIsReportedAndNothingChanges) {
    constexpr u64 in_frame_0 = 254 * 31 * frame_size;
    auto disk = make_volume_disk(in_frame_0, 64 * gib);
    const std::byte byte{9};
    ASSERT_EQ(disk->write(block_size + 999, std::span(&byte, 1)), Errc::ok);
    const Failure failure = grow_volume_on(*disk, "image", 64 * gib);
    EXPECT_EQ(failure.code, Errc::corrupt);
    EXPECT_NE(failure.message.find("warren fsck"), std::string::npos);
    Superblock superblock{};
    ASSERT_EQ(load_superblock(*disk, superblock).code, Errc::ok);
    EXPECT_EQ(superblock.size_bytes, in_frame_0);
}

TEST(GrowVolume, replaysTheJournalFirstAndIsNotUndoneByIt) {
    auto disk = make_volume_disk(64 * mib, 128 * mib);
    Superblock superblock{};
    ASSERT_EQ(load_superblock(*disk, superblock).code, Errc::ok);
    Block blocks[2];
    std::memset(&blocks[1], 7, block_size);
    superblock.clean = 0;
    superblock.inodes_used = 77;
    std::memcpy(&blocks[0], &superblock, block_size);
    format::seal_block(blocks[0], superblock.header.volume, 0, 2);
    const SealedBlock sealed[] = {{0, &blocks[0]}, {32 * mib, &blocks[1]}};
    Journal journal(*disk, superblock);
    ASSERT_EQ(journal.write(2, sealed, FreshData::no), Errc::ok);
    ASSERT_EQ(grow_volume_on(*disk, "image", 128 * mib).code, Errc::ok);
    const Block found = read_block(*disk, 32 * mib);
    EXPECT_EQ(std::memcmp(&found, &blocks[1], block_size), 0);
    ASSERT_EQ(load_superblock(*disk, superblock).code, Errc::ok);
    EXPECT_EQ(superblock.inodes_used, 77u);
    EXPECT_EQ(superblock.clean, 0u);
    const Result<u64> replayed = Journal::replay(*disk, superblock);
    EXPECT_TRUE(replayed);
    EXPECT_EQ(*replayed, 0u);
    ASSERT_EQ(load_superblock(*disk, superblock).code, Errc::ok);
    EXPECT_EQ(superblock.size_bytes, 128 * mib);
}

TEST(GrowVolume, aCutLeavesTheOldOrTheGrownVolume) {
    for (const u64 start : {1 * gib, 254 * 31 * frame_size, 512 * 31 * frame_size}) {
        const u64 goal = start == 1 * gib ? 8 * gib : 33 * gib;
        SCOPED_TRACE(testing::Message() << "from " << start);
        auto disk = make_volume_disk(start, 64 * gib);
        use_frames(*disk, 3);
        Superblock superblock{};
        ASSERT_EQ(load_superblock(*disk, superblock).code, Errc::ok);
        const Census before = take_census(*disk, superblock);
        // Bytes beyond the volume and beyond its table do not belong to it and may hold anything.
        const std::vector<std::byte> garbage(3 * frame_size, std::byte{0xa5});
        ASSERT_EQ(disk->write(start, garbage), Errc::ok);
        const u64 table_end =
            superblock.frame_table_offset + superblock.frame_table_blocks * block_size;
        const u64 room = start == 1 * gib ? (255 - 18) * block_size : 0;
        ASSERT_EQ(disk->write(table_end, std::span(garbage).first(room)), Errc::ok);
        disk->start_recording();
        ASSERT_EQ(grow_volume_on(*disk, "image", goal).code, Errc::ok);
        u64 sizes_seen = 0;
        for (u64 events = 0; events <= disk->event_count(); ++events) {
            for (u64 seed = 0; seed < 6; ++seed) {
                SCOPED_TRACE(testing::Message() << "seed " << seed << " after " << events);
                const Cut cut{(seed & 1) != 0, (seed & 2) != 0, (seed & 4) != 0, seed};
                auto image = disk->image_after(events, cut);
                ASSERT_EQ(load_superblock(*image, superblock).code, Errc::ok);
                ASSERT_TRUE(superblock.size_bytes == start || superblock.size_bytes == goal);
                sizes_seen |= superblock.size_bytes == start ? 1 : 2;
                expect_grown(*image, superblock.size_bytes, before);
            }
            if (testing::Test::HasFailure()) return;
        }
        EXPECT_EQ(sizes_seen, 3u);
    }
}

TEST(GrowVolume, everyFailingIoLeavesAVolume) {
    for (u64 nth = 1;; ++nth) {
        auto disk = make_volume_disk(254 * 31 * frame_size, 64 * gib);
        FaultDisk fault(*disk);
        fault.set_plan({.nth = nth, .is_torn = true});
        const Failure failure = grow_volume_on(fault, "image", 64 * gib);
        Superblock superblock{};
        ASSERT_EQ(load_superblock(*disk, superblock).code, Errc::ok) << "I/O " << nth;
        EXPECT_EQ(take_census(*disk, superblock).blocks_used, superblock.blocks_used);
        if (fault.failed_count() == 0) {
            EXPECT_EQ(failure.code, Errc::ok);
            break;
        }
        ASSERT_EQ(failure.code, Errc::io) << "I/O " << nth;
    }
}

}  // namespace
}  // namespace warren::grow_volume_test
