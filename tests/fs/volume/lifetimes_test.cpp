// SPDX-License-Identifier: Apache-2.0
// How long an inode lives: names, opens and the references of a kernel keep the inode or its
// number, and nothing else does.
#include <gtest/gtest.h>

#include <set>

#include "fs/check/check.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::lifetimes_test {
namespace {

class Lifetimes : public testing::TestWithParam<u64> {
 protected:
    MemoryVolume volume_{64 * mib, {.workers = 2, .meta_buffer_bytes = GetParam()}};

    Volume& volume() { return *volume_; }
    Handle root() { return volume_->root(); }
};
INSTANTIATE_TEST_SUITE_P(BlockMaps, Lifetimes, testing::ValuesIn(block_maps));

TEST_P(Lifetimes, anOpenFileOutlivesItsNameAndGoesWithItsLastClose) {
    const u64 free_before = volume().statistics().blocks_free;
    const Handle file = make_file(volume(), root(), "f");
    ASSERT_EQ(volume().open_file(file), Errc::ok);
    ASSERT_EQ(volume().open_file(file), Errc::ok);
    const std::vector<std::byte> data(100'000, std::byte{1});
    ASSERT_TRUE(volume().write(file, 0, data));
    EXPECT_EQ(volume().unlink(anybody, root(), "f"), Errc::ok);
    EXPECT_EQ(volume().attributes(file)->links, 0u);
    EXPECT_EQ(volume().link(anybody, file, root(), "again").code(), Errc::no_entry);
    EXPECT_EQ(volume().release(file), Errc::ok);
    std::vector<std::byte> got(data.size());
    EXPECT_EQ(*volume().read(file, 0, got), data.size());
    EXPECT_EQ(got, data);
    EXPECT_EQ(volume().release(file), Errc::ok);
    EXPECT_EQ(volume().attributes(file).code(), Errc::stale);
    EXPECT_EQ(volume().release(file), Errc::stale);
    EXPECT_EQ(volume().statistics().inodes_used, 2u);
    // The first leaf of a directory may stay; everything else must be freed.
    EXPECT_LE(free_before - volume().statistics().blocks_free, 2u);
    volume_.close_and_check();
}

TEST_P(Lifetimes, whatWasOpenWithoutANameAtACutIsFreedAtTheNextOpening) {
    for (int i = 0; i < 40; ++i) {
        const auto made = volume().create_unnamed(anybody, root(), {});
        ASSERT_TRUE(made);
        const std::vector<std::byte> data(9000, std::byte{1});
        ASSERT_TRUE(volume().write(made->handle, 0, data));
        if (i % 2 == 0) continue;
        ASSERT_TRUE(volume().link(anybody, made->handle, root(), std::to_string(i)));
    }
    EXPECT_EQ(volume().sync(), Errc::ok);
    const auto image = volume_.disk().copy();
    const auto after = open_on(*image, {.workers = 1});
    ASSERT_TRUE(after);
    expect_counts_agree(*after);
    EXPECT_EQ(list_names(*after, after->root()).size(), 20u);
    EXPECT_EQ(after->close(), Errc::ok);
    expect_clean(*image);
}

TEST_P(Lifetimes, aHeldNumberIsNotUsedAgainUntilItIsForgotten) {
    std::set<u64> held;
    std::vector<Handle> handles;
    for (int i = 0; i < 200; ++i) {
        const auto made = volume().create(anybody, root(), std::to_string(i), {.hold = Hold::yes});
        ASSERT_TRUE(made);
        held.insert(made->handle.inode);
        handles.push_back(made->handle);
        ASSERT_EQ(volume().unlink(anybody, root(), std::to_string(i)), Errc::ok);
        EXPECT_EQ(volume().attributes(made->handle).code(), Errc::stale);
    }
    EXPECT_EQ(held.size(), 200u);
    for (int i = 0; i < 200; ++i) {
        EXPECT_FALSE(held.contains(make_file(volume(), root(), std::to_string(i)).inode));
    }
    for (const Handle handle : handles)
        volume().forget(handle, 1);
    // A group has 8176 numbers: all of them are reused before a second group is allocated.
    u64 again = 0;
    for (int i = 0; i < 8100; ++i) {
        again += held.contains(make_file(volume(), root(), "x" + std::to_string(i)).inode);
    }
    EXPECT_GT(again, 100u);
    volume_.close_and_check();
}

TEST_P(Lifetimes, aRemovedDirectoryThatIsOpenTakesNothingIn) {
    const Handle above = make_directory(volume(), root(), "above");
    const Handle dead = make_directory(volume(), above, "dead");
    const Handle file = make_file(volume(), root(), "file");
    make_directory(volume(), root(), "directory");
    ASSERT_EQ(volume().open_file(dead), Errc::ok);
    ASSERT_EQ(volume().remove_directory(anybody, above, "dead"), Errc::ok);
    ASSERT_EQ(volume().remove_directory(anybody, root(), "above"), Errc::ok);
    EXPECT_EQ(volume().create(anybody, dead, "x", {}).code(), Errc::no_entry);
    EXPECT_EQ(volume().link(anybody, file, dead, "x").code(), Errc::no_entry);
    EXPECT_EQ(volume().rename(anybody, root(), "file", dead, "x"), Errc::no_entry);
    EXPECT_EQ(volume().rename(anybody, root(), "directory", dead, "x"), Errc::no_entry);
    EXPECT_EQ(list_names(volume(), dead).size(), 0u);
    EXPECT_EQ(volume().release(dead), Errc::ok);
    EXPECT_EQ(volume().attributes(dead).code(), Errc::stale);
    expect_counts_agree(volume());
    volume_.close_and_check();
}

/// Open or held inodes of a removed tree give back all that they kept.
TEST_P(Lifetimes, openAndHeldInodesOfRemovedTreesLeaveNothingBehind) {
    std::set<u64> numbers;
    for (int round = 0; round < 600; ++round) {
        const Handle top = make_directory(volume(), root(), "top");
        const Handle below = make_directory(volume(), top, "below");
        const auto file =
            volume().create(anybody, below, "file", {.hold = Hold::yes, .open = true});
        ASSERT_TRUE(file);
        numbers.insert(below.inode);
        ASSERT_EQ(volume().open_file(below), Errc::ok);
        ASSERT_TRUE(volume().attributes(below, Hold::yes));
        Removal removal;
        ASSERT_EQ(volume().remove_tree(anybody, root(), "top", removal), Errc::ok);
        const Errc released = volume().release(below);
        EXPECT_TRUE(released == Errc::ok || released == Errc::stale);
        volume().forget(below, 1);
        EXPECT_EQ(volume().release(file->handle), Errc::ok);
        volume().forget(file->handle, 1);
    }
    EXPECT_EQ(volume().statistics().inodes_used, 2u);
    EXPECT_LT(numbers.size(), 100u) << "numbers of removed directories are never used again";
    volume_.close_and_check();
}

TEST_P(Lifetimes, aHandleOfTheLastLifeOfANumberIsStale) {
    std::set<std::pair<u64, u32>> seen;
    for (int i = 0; i < 300; ++i) {
        const Handle file = make_file(volume(), root(), "f");
        EXPECT_TRUE(seen.emplace(file.inode, file.generation).second);
        ASSERT_EQ(volume().unlink(anybody, root(), "f"), Errc::ok);
        EXPECT_EQ(volume().attributes(file).code(), Errc::stale);
        EXPECT_EQ(volume().open_file(file), Errc::stale);
        if (i % 50 != 0) continue;
        volume_.close();
        volume_.open();
        EXPECT_EQ(volume().attributes(file).code(), Errc::stale);
    }
    volume_.close_and_check();
}

/// At close no client can return to open files: each is freed, whatever its size.
TEST_P(Lifetimes, closingFreesWhatWasOpen) {
    const Handle kept = make_file(volume(), root(), "kept");
    ASSERT_EQ(volume().open_file(kept), Errc::ok);
    for (int i = 0; i < 500; ++i) {
        const auto file = volume().create(anybody, root(), "f", {.open = true});
        ASSERT_TRUE(file);
        // In pieces that are not adjacent, so that some take several steps.
        for (u64 piece = 0; i == 0 && piece < 300; ++piece)
            ASSERT_TRUE(volume().write(file->handle, piece * 8192, std::as_bytes(std::span("x"))));
        ASSERT_EQ(volume().unlink(anybody, root(), "f"), Errc::ok);
    }
    const Handle directory = make_directory(volume(), root(), "d");
    ASSERT_EQ(volume().open_file(directory), Errc::ok);
    ASSERT_EQ(volume().remove_directory(anybody, root(), "d"), Errc::ok);
    ASSERT_TRUE(volume().create_unnamed(anybody, root(), {}));
    ASSERT_EQ(volume().statistics().inodes_used, 505u);
    volume_.close();
    CheckResult result;
    ASSERT_EQ(check_disk(volume_.disk(), "image", {}, result).code, Errc::ok);
    EXPECT_EQ(result.problems, 0u);
    EXPECT_EQ(result.orphans, 0u);
    EXPECT_EQ(result.inodes, 3u);
    volume_.open();
    EXPECT_TRUE(volume().lookup(anybody, root(), "kept"));
    volume_.close_and_check();
}

}  // namespace
}  // namespace warren::lifetimes_test
