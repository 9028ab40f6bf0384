// SPDX-License-Identifier: Apache-2.0
// A new volume is read back by the rules of the format, at every size class. Creation is cut off
// after every I/O event, and each refusal is explained to the user.
#include "fs/admin/make_volume.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "fs/admin/volume_layout.hpp"
#include "fs/disk/file_disk.hpp"
#include "tests/fs/volume/raw_volume.hpp"
#include "tests/support/fault_disk.hpp"
#include "tests/support/passing_disk.hpp"

namespace warren::make_volume_test {
namespace {

using namespace raw_volume;

TEST(MakeVolume, everySizeFollowsTheFormat) {
    constexpr u64 in_frame_0 = 254 * 31 * frame_size;
    for (const u64 size :
         {16 * mib, 17 * mib + 4096, 62 * mib, 64 * mib, 66 * mib, 1 * gib, 4 * gib, in_frame_0,
          in_frame_0 + frame_size, 100 * gib, 1 * tib, 16 * tib}) {
        SCOPED_TRACE(testing::Message() << size << " bytes");
        auto disk = make_volume_disk(size);
        EXPECT_LE(disk->resident_bytes(), 1 * mib);
        expect_empty_volume(*disk, size);
        Superblock superblock{};
        ASSERT_EQ(load_superblock(*disk, superblock).code, Errc::ok);
        EXPECT_EQ(superblock.header.place, format::superblock_offset);
    }
}

TEST(MakeVolume, journalAndTableAreWhereTheRulesSay) {
    const auto layout = [](u64 size) {
        Superblock superblock{};
        lay_out(superblock, size);
        return superblock;
    };
    EXPECT_EQ(layout(16 * mib).journal_offset, 255 * block_size);
    EXPECT_EQ(layout(62 * mib).journal_blocks, 256u);
    EXPECT_EQ(layout(64 * mib).journal_offset, frame_size);
    EXPECT_EQ(layout(64 * mib).journal_blocks, 512u);
    EXPECT_EQ(layout(1 * gib).journal_blocks, 32 * mib / block_size);
    EXPECT_EQ(layout(4 * gib).journal_blocks, 128 * mib / block_size);
    EXPECT_EQ(layout(32 * gib).journal_blocks, 1 * gib / block_size);
    EXPECT_EQ(layout(16 * tib).journal_blocks, 3 * gib / 2 / block_size);
    EXPECT_EQ(layout(16 * tib).frame_table_offset, frame_size);
    EXPECT_EQ(layout(16 * tib).frame_table_blocks, 270601u);
    EXPECT_EQ(layout(16 * tib).journal_offset, 530 * frame_size);
    EXPECT_EQ(layout(15 * gib).frame_table_offset, block_size);
}

TEST(MakeVolume, aCutLeavesAllOrNothing) {
    MemoryDisk disk(16 * mib);
    ASSERT_EQ(make_volume_on(disk, "image", 16 * mib, "old").code, Errc::ok);
    disk.start_recording();
    PassingDisk writer(disk);  // so that zeros are written too, and can be lost in part
    ASSERT_EQ(make_volume_on(writer, "image", 16 * mib, "new").code, Errc::ok);
    ASSERT_GT(disk.event_count(), 10u);
    u64 opened = 0;
    for (u64 events = 0; events <= disk.event_count(); ++events) {
        for (u64 seed = 0; seed < 16; ++seed) {
            SCOPED_TRACE(testing::Message() << "seed " << seed << " after " << events);
            const Cut cut{(seed & 1) != 0, (seed & 2) != 0, (seed & 4) != 0, seed};
            auto image = disk.image_after(events, cut);
            Superblock superblock{};
            if (load_superblock(*image, superblock).code != Errc::ok)
                continue;  // neither old nor new
            ++opened;
            expect_empty_volume(*image, 16 * mib);
        }
    }
    EXPECT_GT(opened, 0u);
}

TEST(MakeVolume, everyFailingIoIsReported) {
    for (u64 nth = 1;; ++nth) {
        MemoryDisk memory(16 * mib);
        FaultDisk disk(memory);
        disk.set_plan({.reads = false, .nth = nth, .is_once = true});
        const Failure failure = make_volume_on(disk, "image", 16 * mib, "");
        if (disk.failed_count() == 0) {
            EXPECT_EQ(failure.code, Errc::ok);
            EXPECT_GT(nth, 10u);
            break;
        }
        ASSERT_EQ(failure.code, Errc::io);
        EXPECT_TRUE(failure.message.starts_with("image: cannot write")) << failure.message;
    }
}

FormatOptions sized(u64 size_bytes) {
    FormatOptions options;
    options.size_bytes = size_bytes;
    return options;
}

FormatOptions forced() {
    FormatOptions options;
    options.force = true;
    return options;
}

class MakeVolumeFileTest : public testing::Test {
 protected:
    void SetUp() override {
        std::string pattern = (std::filesystem::temp_directory_path() / "warren_XXXXXX").string();
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
        path_ = folder_ + "/image";
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    void put(u64 offset, std::string_view bytes) {
        std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(static_cast<i64>(offset));
        file.write(bytes.data(), static_cast<i64>(bytes.size()));
    }
    void make_file(u64 size_bytes) {
        std::filesystem::remove(path_);
        std::ofstream(path_).flush();
        std::filesystem::resize_file(path_, size_bytes);
    }
    void expect_failure(const FormatOptions& options, Errc code, const std::string& text) {
        const Failure failure = make_volume(path_, options);
        EXPECT_EQ(failure.code, code) << failure.message;
        EXPECT_TRUE(failure.message.starts_with(path_ + ": ")) << failure.message;
        EXPECT_NE(failure.message.find(text), std::string::npos) << failure.message;
    }

    std::string folder_;
    std::string path_;
};

TEST_F(MakeVolumeFileTest, makesAndRemakesAFile) {
    Failure failure = make_volume(path_, {.size_bytes = 20 * mib + 4096, .label = "größer"});
    ASSERT_EQ(failure.code, Errc::ok) << failure.message;
    EXPECT_EQ(std::filesystem::file_size(path_), 20 * mib + 4096);
    auto disk = FileDisk::open(path_, OpenMode::read_only, failure);
    ASSERT_TRUE(disk) << failure.message;
    expect_empty_volume(*disk, 20 * mib);
    disk.reset();
    expect_failure({}, Errc::exists, "holds a Warren volume; only force");
    put(9 * mib, "old contents");
    failure = make_volume(path_, forced());
    ASSERT_EQ(failure.code, Errc::ok) << failure.message;
    EXPECT_EQ(std::filesystem::file_size(path_), 20 * mib + 4096);
    disk = FileDisk::open(path_, OpenMode::read_only, failure);
    ASSERT_TRUE(disk);
    expect_empty_volume(*disk, 20 * mib);
    char byte = 1;
    ASSERT_EQ(disk->read(9 * mib, std::as_writable_bytes(std::span(&byte, 1))), Errc::ok);
    EXPECT_EQ(byte, 0);
}

TEST_F(MakeVolumeFileTest, largeVolumesCostLittle) {
    u64 size = 16 * tib;
    // Some file systems limit files to a smaller size.
    while (make_volume(path_, sized(size)).code == Errc::file_too_big)
        size /= 2;
    ASSERT_GE(size, 1 * tib);
    struct stat status {};
    ASSERT_EQ(::stat(path_.c_str(), &status), 0);
    EXPECT_LE(static_cast<u64>(status.st_blocks) * 512, 1 * mib);
    Failure failure;
    auto disk = FileDisk::open(path_, OpenMode::read_only, failure);
    ASSERT_TRUE(disk) << failure.message;
    Superblock superblock{};
    EXPECT_EQ(load_superblock(*disk, superblock).code, Errc::ok);
    EXPECT_EQ(superblock.size_bytes, size);
}

TEST_F(MakeVolumeFileTest, refusesToOverwriteWhatItFinds) {
    using namespace std::string_view_literals;
    const struct {
        u64 offset;
        std::string_view bytes;
        const char* text;
    } cases[] = {
        {0, "XFSB", "an XFS file system"},
        {1080, "\x53\xef", "an ext2, ext3 or ext4 file system"},
        {64 * kib + 64, "_BHRfS_M", "a Btrfs file system"},
        {0, "LUKS\xba\xbe", "an encrypted volume"},
        {3, "NTFS    ", "an NTFS file system"},
        {1024, "\x10\x20\xf5\xf2", "an F2FS file system"},
        {512, "EFI PART", "a partition table"},
        {4095, "x", "holds data"},
        {64 * kib + 100, "x", "holds data"},
    };
    for (const auto& found : cases) {
        make_file(16 * mib);
        put(found.offset, found.bytes);
        expect_failure({}, Errc::exists, found.text);
        EXPECT_EQ(make_volume(path_, forced()).code, Errc::ok);
    }
    make_file(2);
    put(0, "x\n");
    expect_failure(sized(16 * mib), Errc::exists, "holds data");
    make_file(16 * mib);
    put(100 * kib, "no signature");
    EXPECT_EQ(make_volume(path_, {}).code, Errc::ok);
}

TEST_F(MakeVolumeFileTest, saysWhatIsWrong) {
    expect_failure({}, Errc::no_entry, "give a size to make it");
    expect_failure(sized(16 * mib - 1), Errc::invalid, "too small");
    expect_failure(sized(16 * tib + 1), Errc::invalid, "too large");
    expect_failure({.size_bytes = 16 * mib, .label = std::string(33, 'x')}, Errc::invalid,
                   "longer than 32 bytes");
    for (const char* label : {"a\nb", "\xff", "\xc3", "\x80", "a\xc3(", "\x1b[1m"}) {
        expect_failure({.size_bytes = 16 * mib, .label = label}, Errc::invalid, "printable");
    }
    EXPECT_FALSE(std::filesystem::exists(path_));
    make_file(0);
    expect_failure({}, Errc::invalid, "give the size");
    make_file(1 * mib);
    expect_failure({}, Errc::invalid, "too small");
    make_file(16 * mib);
    Failure failure;
    auto holder = FileDisk::open(path_, OpenMode::read_only, failure);
    ASSERT_TRUE(holder);
    expect_failure({}, Errc::busy, "in use by process ");
    EXPECT_EQ(grow_volume(path_, 0).code, Errc::busy);
}

TEST_F(MakeVolumeFileTest, growsAFile) {
    ASSERT_EQ(make_volume(path_, sized(16 * mib)).code, Errc::ok);
    EXPECT_EQ(grow_volume(path_, 8 * mib).code, Errc::invalid);
    EXPECT_EQ(grow_volume(path_, 17 * tib).code, Errc::invalid);
    EXPECT_EQ(grow_volume(path_, 0).code, Errc::ok);
    ASSERT_EQ(grow_volume(path_, 40 * mib).code, Errc::ok);
    EXPECT_EQ(std::filesystem::file_size(path_), 40 * mib);
    std::filesystem::resize_file(path_, 64 * gib);
    const Failure grown = grow_volume(path_, 0);
    ASSERT_EQ(grown.code, Errc::ok) << grown.message;
    Failure failure;
    auto disk = FileDisk::open(path_, OpenMode::read_only, failure);
    ASSERT_TRUE(disk);
    Superblock superblock{};
    ASSERT_EQ(load_superblock(*disk, superblock).code, Errc::ok);
    EXPECT_EQ(superblock.size_bytes, 64 * gib);
    EXPECT_EQ(take_census(*disk, superblock).blocks_used, superblock.blocks_used);
}

/// Adds data frames to the table by hand, as an engine would; a move must preserve them.

}  // namespace
}  // namespace warren::make_volume_test
