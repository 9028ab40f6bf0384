// SPDX-License-Identifier: Apache-2.0
// The superblock is damaged by byte, forged by field, cut off and overwritten: a reader gets its
// values or a refusal with a reason, and writing always leaves a sound copy on disk.
#include "fs/commit/superblock_io.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "tests/fs/volume/raw_volume.hpp"

namespace warren::superblock_io_test {
namespace {

using namespace raw_volume;

TEST(SuperblockIo, anyFlippedByteMakesTheCopyBeUsed) {
    auto disk = make_volume_disk(16 * mib);
    Superblock expected{};
    ASSERT_EQ(load_superblock(*disk, expected).code, Errc::ok);
    for (u64 at = 0; at < block_size; ++at) {
        SCOPED_TRACE(testing::Message() << "byte " << at);
        auto image = disk->copy();
        std::byte byte;
        ASSERT_EQ(image->read(at, std::span(&byte, 1)), Errc::ok);
        byte ^= static_cast<std::byte>(1u << at % 8);
        ASSERT_EQ(image->write(at, std::span(&byte, 1)), Errc::ok);
        Superblock found{};
        ASSERT_EQ(load_superblock(*image, found).code, Errc::ok);
        ASSERT_EQ(found.header.place, format::superblock_copy_offset);
        ASSERT_EQ(std::memcmp(&found.magic, &expected.magic, block_size - sizeof found.header), 0);
        ASSERT_EQ(image->write(format::superblock_copy_offset + at, std::span(&byte, 1)), Errc::ok);
        const bool is_magic = at >= 48 && at < 56;
        const bool is_header_equal = at >= 16 && at < 24;  // the copies differ there: `place`
        if (is_header_equal || at < 4) continue;
        ASSERT_EQ(load_superblock(*image, found).code, is_magic ? Errc::invalid : Errc::corrupt);
    }
}

TEST(SuperblockIo, writingBothCopiesRepairsEither) {
    auto disk = make_volume_disk(16 * mib);
    const std::vector<std::byte> zeros(block_size);
    for (const u64 place : {format::superblock_offset, format::superblock_copy_offset}) {
        ASSERT_EQ(disk->write(place, zeros), Errc::ok);
        Superblock superblock{};
        ASSERT_EQ(load_superblock(*disk, superblock).code, Errc::ok);
        disk->start_recording();
        ASSERT_EQ(write_superblock(*disk, superblock, superblock.header.transaction + 1), Errc::ok);
        for (u64 events = 0; events <= disk->event_count(); ++events) {
            for (u64 seed = 0; seed < 8; ++seed) {
                auto image = disk->image_after(events, {.drop = true, .tear = true, .seed = seed});
                ASSERT_EQ(load_superblock(*image, superblock).code, Errc::ok)
                    << "seed " << seed << " after " << events;
            }
        }
        disk->stop_recording();
        for (const u64 other : {format::superblock_offset, format::superblock_copy_offset}) {
            const Block block = read_block(*disk, other);
            EXPECT_EQ(
                format::check_block(block, BlockKind::superblock, superblock.header.volume, other),
                Errc::ok);
        }
    }
}

/// The error of reading a superblock whose two copies were changed and sealed again.
template <class Change>
Failure load_changed(const Change& change) {
    auto disk = make_volume_disk(64 * mib);
    Superblock superblock{};
    EXPECT_EQ(load_superblock(*disk, superblock).code, Errc::ok);
    change(superblock);
    EXPECT_EQ(write_superblock(*disk, superblock, 7), Errc::ok);
    return load_superblock(*disk, superblock);
}

TEST(SuperblockIo, superblockThatLiesIsRefused) {
    using S = Superblock;
    EXPECT_EQ(load_changed([](S&) {}).code, Errc::ok);
    EXPECT_EQ(load_changed([](S& s) { s.features_compatible = ~u64{0}; }).code, Errc::ok);
    EXPECT_EQ(load_changed([](S& s) { s.version_minor = 9; }).code, Errc::ok);
    EXPECT_EQ(load_changed([](S& s) { s.version_major = 2; }).code, Errc::not_supported);
    EXPECT_EQ(load_changed([](S& s) { s.features_incompatible = 4; }).code, Errc::not_supported);
    void (*const lies[])(S&) = {
        [](S& s) { s.size_bytes += 4096; },
        [](S& s) { s.size_bytes = 0; },
        [](S& s) { s.size_bytes = ~u64{0} / frame_size * frame_size; },
        [](S& s) { ++s.frame_count; },
        [](S& s) { s.frame_table_offset = 0; },
        [](S& s) { s.frame_table_offset += 1; },
        [](S& s) { s.frame_table_offset = s.size_bytes; },
        [](S& s) { s.frame_table_offset = ~u64{0} - 4095; },
        [](S& s) { s.frame_table_offset = s.journal_offset; },
        [](S& s) { s.frame_table_blocks = 0; },
        [](S& s) { s.frame_table_blocks = 1; },
        [](S& s) { s.frame_table_blocks = 511; },
        [](S& s) { s.frame_table_blocks = ~u64{0}; },
        [](S& s) { s.journal_offset = format::superblock_copy_offset; },
        [](S& s) { s.journal_offset = s.size_bytes - 4096; },
        [](S& s) { s.journal_blocks = 0; },
        [](S& s) { s.journal_blocks = 8; },
        [](S& s) { s.journal_blocks = format::journal_blocks_min - 2; },
        [](S& s) { s.journal_blocks = 511; },
        [](S& s) { s.journal_blocks = ~u64{0} - 1; },
        [](S& s) { s.root_inode = 15; },
        [](S& s) { s.root_inode = s.orphan_directory; },
        [](S& s) { s.root_inode = ~u64{0}; },
        [](S& s) { s.orphan_directory = 32 * 8192 + 16; },
        [](S& s) { s.metadata_frames_end = 33; },
        [](S& s) { s.data_frames_begin = 33; },
        [](S& s) { s.blocks_used = 32 * 512 + 1; },
        [](S& s) { s.inodes_used = ~u64{0}; },
        [](S& s) { s.clean = 2; },
    };
    int number = 0;
    for (const auto& lie : lies) {
        EXPECT_EQ(load_changed(lie).code, Errc::corrupt) << "lie " << number;
        ++number;
    }
}

TEST(SuperblockIo, journalTooSmallForAnOperationIsRefused) {
    const Failure failure = load_changed([](Superblock& s) { s.journal_blocks = 8; });
    EXPECT_EQ(failure.code, Errc::corrupt);
    EXPECT_NE(failure.message.find("the journal has 8 blocks, and the least is 256;"),
              std::string::npos)
        << failure.message;
    EXPECT_EQ(load_changed([](Superblock& s) { s.journal_blocks = 256; }).code, Errc::ok);
}

TEST(SuperblockIo, unknownReadOnlyFeaturesAreReported) {
    auto disk = make_volume_disk(16 * mib);
    Superblock superblock{};
    ASSERT_EQ(load_superblock(*disk, superblock).code, Errc::ok);
    superblock.features_read_only_compatible = 2;
    ASSERT_EQ(write_superblock(*disk, superblock, 2), Errc::ok);
    EXPECT_EQ(load_superblock(*disk, superblock).code, Errc::ok);
    EXPECT_TRUE(must_stay_read_only(superblock));
    EXPECT_EQ(grow_volume_on(*disk, "image", 16 * mib).code, Errc::not_supported);
}

TEST(SuperblockIo, garbageAndTruncatedImagesAreRefused) {
    Superblock superblock{};
    for (const u64 size : {u64{0}, 4 * kib, 2 * mib, 16 * mib}) {
        MemoryDisk disk(size);
        EXPECT_EQ(load_superblock(disk, superblock).code, Errc::invalid);
        Random random(size + 1);
        for (u64 at = 0; at < size; at += 8) {
            const u64 word = random.next();
            ASSERT_EQ(disk.write(at, std::as_bytes(std::span(&word, 1))), Errc::ok);
        }
        EXPECT_EQ(load_superblock(disk, superblock).code, Errc::invalid);
    }
    auto whole = make_volume_disk(16 * mib);
    std::vector<std::byte> bytes(16 * mib - 4096);
    ASSERT_EQ(whole->read(0, bytes), Errc::ok);
    for (const u64 size : {4 * kib, 2 * mib, 16 * mib - 4096}) {
        MemoryDisk cut(size);
        ASSERT_EQ(cut.write(0, std::span(bytes).first(size)), Errc::ok);
        const Failure failure = load_superblock(cut, superblock);
        EXPECT_EQ(failure.code, Errc::corrupt);
        EXPECT_NE(failure.message.find(std::to_string(16 * mib - size) + " bytes are missing"),
                  std::string::npos)
            << failure.message;
    }
}

TEST(SuperblockIo, anotherFileSystemOverAnOldVolumeIsRefused) {
    auto disk = make_volume_disk(16 * mib);
    const std::vector<std::byte> zeros(1024);
    const std::byte ext[2] = {std::byte{0x53}, std::byte{0xef}};
    ASSERT_EQ(disk->write(0, zeros), Errc::ok);
    ASSERT_EQ(disk->write(1080, ext), Errc::ok);
    Superblock superblock{};
    const Failure failure = load_superblock(*disk, superblock);
    EXPECT_EQ(failure.code, Errc::invalid);
    EXPECT_NE(failure.message.find("ext4"), std::string::npos) << failure.message;
}

}  // namespace
}  // namespace warren::superblock_io_test
