// SPDX-License-Identifier: Apache-2.0
// What is written to the journal, and when. A bulk removal logs bitmaps: far fewer blocks than
// those of the removed inodes, which are not written; bench/journal_bench gives the figure for a
// million files. When the journal is full the volume commits by itself.
#include <gtest/gtest.h>

#include "fs/commit/superblock_io.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::removal_log_test {
namespace {

constexpr u64 directories = 20;
constexpr u64 files_each = 1000;

/// The bytes that were written to the journal, by the log of `disk`.
u64 journal_bytes(MemoryDisk& disk) {
    format::Superblock superblock;
    EXPECT_EQ(read_superblock(disk, "image", superblock).code, Errc::ok);
    const u64 begin = superblock.journal_offset;
    const u64 end = begin + superblock.journal_blocks * format::block_size;
    u64 bytes = 0;
    for (u64 i = 0; i < disk.event_count(); ++i) {
        const DiskEvent event = disk.event(i);
        const bool is_logged =
            event.kind == DiskEventKind::write && event.offset >= begin && event.offset < end;
        bytes += is_logged ? event.length_bytes : 0;
    }
    return bytes;
}

/// Removes the entries of `top`, and `top`.
using Remove = void (*)(Volume& volume, Handle top);

void remove_as_a_tree(Volume& volume, Handle) {
    Removal removal;
    ASSERT_EQ(volume.remove_tree(anybody, volume.root(), "top", removal), Errc::ok);
    ASSERT_EQ(removal.files, directories * files_each);
}

void remove_by_names(Volume& volume, Handle top) {
    for (u64 d = 0; d < directories; ++d) {
        const std::string name = "d" + std::to_string(d);
        const Handle directory = volume.lookup(anybody, top, name)->handle;
        for (u64 f = 0; f < files_each; ++f)
            ASSERT_EQ(volume.unlink(anybody, directory, "f" + std::to_string(f)), Errc::ok);
        ASSERT_EQ(volume.remove_directory(anybody, top, name), Errc::ok);
    }
    ASSERT_EQ(volume.remove_directory(anybody, volume.root(), "top"), Errc::ok);
}

TEST(RemovalLog, holdsBitmapsAndNotInodes) {
    for (const Remove remove : {remove_as_a_tree, remove_by_names}) {
        SCOPED_TRACE(remove == remove_as_a_tree ? "as a tree" : "by names");
        MemoryVolume volume(512 * mib, {.workers = 2});
        const Handle top = make_directory(*volume, volume->root(), "top");
        for (u64 d = 0; d < directories; ++d) {
            const Handle directory = make_directory(*volume, top, "d" + std::to_string(d));
            for (u64 f = 0; f < files_each; ++f)
                make_file(*volume, directory, "f" + std::to_string(f));
        }
        ASSERT_EQ(volume->sync(), Errc::ok);
        volume.disk().start_recording();
        remove(*volume, top);
        ASSERT_EQ(volume->sync(), Errc::ok);
        volume.disk().stop_recording();
        const u64 logged = journal_bytes(volume.disk());
        EXPECT_GT(logged, 0u) << "the removal was not recorded";
        EXPECT_LT(logged, directories * files_each * format::inode_size / 4);
        volume.close_and_check();
    }
}

class FullJournal : public testing::TestWithParam<u64> {};

INSTANTIATE_TEST_SUITE_P(BlockMaps, FullJournal, testing::ValuesIn(block_maps));

TEST_P(FullJournal, commitsThoughNobodyAsks) {
    constexpr u64 files_max = 200'000;
    constexpr u64 commits = 3;
    MemoryVolume volume(256 * mib, {.meta_buffer_bytes = GetParam()});
    volume.disk().start_recording();
    u64 made = 0;
    u64 before = 0;
    for (u64 commit = 0; commit < commits; ++commit) {
        const u64 events = volume.disk().event_count();
        before = made;
        for (; volume.disk().event_count() == events && made < files_max; ++made)
            make_file(*volume, volume->root(), "f" + std::to_string(made));
    }
    volume.disk().stop_recording();
    ASSERT_LT(made, files_max) << "nothing was written";
    EXPECT_GT(journal_bytes(volume.disk()), 0u);
    // The disk at this moment, of a volume that was neither synced nor closed.
    const auto image = volume.disk().image_after(volume.disk().event_count());
    EXPECT_TRUE(expect_clean(*image));
    const auto opened = open_on(*image);
    ASSERT_NE(opened, nullptr);
    for (u64 file = 0; file < before; ++file)
        ASSERT_TRUE(opened->lookup(anybody, opened->root(), "f" + std::to_string(file))) << file;
    EXPECT_EQ(opened->close(), Errc::ok);
    volume.close_and_check();
}

}  // namespace
}  // namespace warren::removal_log_test
