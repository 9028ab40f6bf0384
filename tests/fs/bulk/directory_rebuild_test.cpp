// SPDX-License-Identifier: Apache-2.0
// The directory rebuild of a GPU, run by threads and by lanes in lockstep: it keeps all names under
// their keys in as few blocks as they need, beside readers and writers.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/fs/bulk/host_rebuild.hpp"
#include "tests/fs/bulk/rebuild_cases.hpp"
#include "tests/support/image_builder.hpp"
#include "tests/support/two_looks.hpp"

namespace warren::directory_rebuild_test {
namespace {

TEST(DirectoryRebuildWork, OneThread) {
    expect_rebuilds([](InsideVolume& volume) {
        return std::make_unique<HostRebuild>(volume.inside(), 1, false);
    });
}

TEST(DirectoryRebuildWork, SomeThreads) {
    expect_rebuilds([](InsideVolume& volume) {
        return std::make_unique<HostRebuild>(volume.inside(), 3, false);
    });
}

TEST(DirectoryRebuildWork, ColdTreesAndLockstep) {
    const RebuildCase which{"some", 3000, 2, 12};
    const auto disk = make_memory_disk(64 * mib);
    std::map<std::string, u64> names;
    Handle directory;
    {
        InsideVolume volume(*disk);
        directory = make_case(*volume, which);
        names = list_names(*volume, directory);
        EXPECT_EQ(volume->close(), Errc::ok);
    }
    InsideVolume volume(*disk);
    HostRebuild rebuild(volume.inside(), 1, true);
    EXPECT_EQ(rebuild(anybody, directory), Errc::ok);
    EXPECT_LE(volume->attributes(directory)->blocks, packed_blocks(names));
    EXPECT_TRUE(list_names(*volume, directory) == names);
    EXPECT_EQ(volume->close(), Errc::ok);
    expect_clean(*disk);
}

/// A volume whose journal holds less than the directory's tree.
constexpr u64 small_journal_volume = 32 * mib;
const RebuildCase larger_than_a_commit{"large", 40'000, 2, 20};

TEST(DirectoryRebuildWork, MoreThanOneCommitHolds) {
    const auto disk = make_memory_disk(small_journal_volume);
    InsideVolume volume(*disk);
    const Handle directory = make_case(*volume, larger_than_a_commit);
    const auto names = list_names(*volume, directory);
    HostRebuild rebuild(volume.inside(), 3, false);
    EXPECT_EQ(rebuild(anybody, directory), Errc::ok);
    EXPECT_GT(rebuild.steps, 2u);
    EXPECT_LE(volume->attributes(directory)->blocks, packed_blocks(names));
    EXPECT_TRUE(list_names(*volume, directory) == names);
    for (u32 i = 0; i < 300; ++i)
        make_file(*volume, directory, "again" + std::to_string(i));
    EXPECT_EQ(list_names(*volume, directory).size(), names.size() + 300);
    EXPECT_EQ(volume->close(), Errc::ok);
    EXPECT_TRUE(expect_clean(*disk));
}

TEST(DirectoryRebuildWork, AMillionAndAHalfLong) {
    const auto disk = make_memory_disk(4 * gib);
    InsideVolume volume(*disk);
    const LargeDirectory large(volume, 1'800'000);
    EXPECT_EQ(volume->sync(), Errc::ok);
    HostRebuild rebuild(volume.inside(), 3, false);
    EXPECT_EQ(rebuild(anybody, large.handle), Errc::ok);
    EXPECT_GT(rebuild.steps, 2u);
    EXPECT_LE(volume->attributes(large.handle)->blocks, large.packed_blocks());
    EXPECT_EQ(list_names(*volume, large.handle).size(), large.names.size());
    EXPECT_EQ(volume->close(), Errc::ok);
    EXPECT_TRUE(expect_clean(*disk));
}

/// Windows of a few leaves that begin and end at random positions, also run by lanes in lockstep.
/// If a window cannot save a leaf, its leaves stay as they are.
TEST(DirectoryRebuildWork, SmallWindows) {
    for (const RebuildCase& which : {RebuildCase{"some", 1200, 2, 12},
                                     {"gone", 1500, 40, 12},
                                     {"all gone", 700, 1000, 10},
                                     {"long", 500, 3, 255}}) {
        SCOPED_TRACE(which.label);
        for (const u64 leaves : {2u, 5u, 12u}) {
            const auto disk = make_memory_disk(64 * mib);
            InsideVolume volume(*disk);
            const Handle directory = make_case(*volume, which);
            const auto names = list_names(*volume, directory);
            const bool in_lockstep = leaves == 5 && which.names < 1300;
            HostRebuild rebuild(volume.inside(), in_lockstep ? 1 : 3, in_lockstep);
            rebuild.leaves_max = leaves;
            EXPECT_EQ(rebuild(anybody, directory), Errc::ok);
            EXPECT_TRUE(list_names(*volume, directory) == names);
            if (leaves == 12) {
                EXPECT_LE(volume->attributes(directory)->blocks, packed_blocks(names) * 12 / 11);
            }
            EXPECT_EQ(volume->close(), Errc::ok);
            EXPECT_TRUE(expect_clean(*disk));
        }
    }
}

/// The machine stops between two windows: the volume on disk is consistent and holds all names, and
/// the remaining leaves are packed by a later rebuild.
TEST(DirectoryRebuildWork, EndsBetweenWindows) {
    const auto disk = make_memory_disk(small_journal_volume);
    InsideVolume volume(*disk);
    const Handle directory = make_case(*volume, larger_than_a_commit);
    const auto names = list_names(*volume, directory);
    EXPECT_EQ(volume->sync(), Errc::ok);
    for (const u32 steps : {1u, 2u}) {
        HostRebuild rebuild(volume.inside(), 2, false);
        rebuild.steps_max = steps;
        EXPECT_EQ(rebuild(anybody, directory), Errc::canceled);
        EXPECT_TRUE(list_names(*volume, directory) == names);
        const auto cut = disk->copy();
        {
            const auto opened = open_on(*cut);
            ASSERT_NE(opened, nullptr);
            EXPECT_TRUE(list_names(*opened, directory) == names);
            EXPECT_EQ(opened->close(), Errc::ok);
        }
        EXPECT_TRUE(expect_clean(*cut));
        InsideVolume again(*cut);
        HostRebuild rest(again.inside(), 2, false);
        EXPECT_EQ(rest(anybody, directory), Errc::ok);
        EXPECT_LE(again->attributes(directory)->blocks, packed_blocks(names));
        EXPECT_TRUE(list_names(*again, directory) == names);
        EXPECT_EQ(again->close(), Errc::ok);
        EXPECT_TRUE(expect_clean(*cut));
    }
    EXPECT_EQ(volume->close(), Errc::ok);
}

/// Changes the key of the first pair in the last node below the root of a directory to almost the
/// first key of the next node.
void raise_first_key(MemoryDisk& disk, Handle directory) {
    test::ImageEditor editor(disk);
    const format::Inode inode = editor.inode(directory.inode);
    ASSERT_EQ(inode.height, 2);
    const u64 place = inode.area.pairs[inode.area_count - 1].child.offset();
    format::Block block = editor.read(place);
    auto& node = reinterpret_cast<format::TreeNode&>(block);
    node.pairs[0].key = node.pairs[1].key - 1;
    editor.write(place, block);
}

/// A rebuild of such a directory reports corruption and loses no name; after a repair the rebuild
/// succeeds.
void expect_no_rebuild_of_broken(const RebuildCase& which) {
    const auto pristine = make_memory_disk(64 * mib);
    Handle directory;
    {
        InsideVolume volume(*pristine);
        directory = make_case(*volume, which);
        EXPECT_EQ(volume->close(), Errc::ok);
    }
    raise_first_key(*pristine, directory);
    enum class By { commands, one_window, windows };
    const auto rebuild = [&](InsideVolume& volume, By by) {
        Rebuilt rebuilt;
        if (by == By::commands) return volume->rebuild(anybody, directory, rebuilt);
        HostRebuild host(volume.inside(), 2, false);
        if (by == By::windows) host.leaves_max = 50;
        return host(anybody, directory);
    };
    for (const By by : {By::commands, By::one_window, By::windows}) {
        SCOPED_TRACE(static_cast<int>(by));
        const auto disk = pristine->copy();
        {
            InsideVolume volume(*disk);
            EXPECT_EQ(rebuild(volume, by), Errc::corrupt);
            const auto names = list_names(*volume, directory);
            EXPECT_EQ(names.size(), which.names / which.kept_one_in);
            for (const auto& [name, inode] : names)
                ASSERT_TRUE(volume->lookup(anybody, directory, name)) << name;
            EXPECT_EQ(volume->close(), Errc::ok);
        }
        const test::Outcome repaired = test::check_once(*disk, true, true);
        EXPECT_TRUE(repaired.says("/broken: keys in its tree are out of order")) << repaired.all();
        EXPECT_TRUE(expect_clean(*disk));
        InsideVolume volume(*disk);
        const auto names = list_names(*volume, directory);
        EXPECT_EQ(names.size(), which.names / which.kept_one_in);
        EXPECT_EQ(rebuild(volume, by), Errc::ok);
        EXPECT_TRUE(list_names(*volume, directory) == names);
        EXPECT_EQ(volume->close(), Errc::ok);
        EXPECT_TRUE(expect_clean(*disk));
    }
}

/// Names before such a key are found as long as their leaf is the first of its node. No rebuild may
/// put another leaf first; a repair corrects the key.
TEST(DirectoryRebuildWork, ANodeThatBeginsBehindItsPair) {
    // The last of several nodes; then a single node, whose pairs would fit into the root.
    expect_no_rebuild_of_broken({"broken", 30'000, 3, 12});
    expect_no_rebuild_of_broken({"broken", 1500, 5, 12});
}

/// Makes pair `second` of a directory's last node of height 1 point to the same leaf as pair
/// `first`; with `is_empty` that leaf also loses its names.
void lead_to_one_leaf(MemoryDisk& disk, Handle directory, u32 first, u32 second, bool is_empty) {
    test::ImageEditor editor(disk);
    const format::Inode inode = editor.inode(directory.inode);
    ASSERT_EQ(inode.height, 2);
    const u64 place = inode.area.pairs[inode.area_count - 1].child.offset();
    format::Block block = editor.read(place);
    auto& node = reinterpret_cast<format::TreeNode&>(block);
    ASSERT_LT(second, node.count);
    const u64 shared = node.pairs[first].child.offset();
    node.pairs[second].child = node.pairs[first].child;
    editor.write(place, block);
    if (!is_empty) return;
    format::Block leaf_block = editor.read(shared);
    auto& leaf = reinterpret_cast<format::DirectoryLeaf&>(leaf_block);
    for (format::DirectorySlot& slot : leaf.slots)
        slot = {};
    editor.write(shared, leaf_block);
}

/// Packing such a tree would free the leaf twice, or move its names into itself.
TEST(DirectoryRebuildWork, TwoPairsThatLeadToOneLeaf) {
    const auto pristine = make_memory_disk(64 * mib);
    Handle directory;
    {
        InsideVolume volume(*pristine);
        directory = make_case(*volume, {"broken", 3000, 5, 12});
        EXPECT_EQ(volume->close(), Errc::ok);
    }
    for (const u32 second : {1u, 4u}) {
        for (const bool is_empty : {false, true}) {
            SCOPED_TRACE(testing::Message() << "pairs 0 and " << second << ", empty " << is_empty);
            const auto disk = pristine->copy();
            lead_to_one_leaf(*disk, directory, 0, second, is_empty);
            InsideVolume volume(*disk);
            const u64 free_before = volume->statistics().blocks_free;
            HostRebuild host(volume.inside(), 2, false);
            EXPECT_EQ(host(anybody, directory), Errc::corrupt);
            EXPECT_EQ(volume->statistics().blocks_free, free_before);
            EXPECT_EQ(volume->close(), Errc::ok);
        }
    }
}

TEST(DirectoryRebuildWork, AsksForPermission) {
    const auto disk = make_memory_disk(64 * mib);
    InsideVolume volume(*disk);
    const Handle directory = make_directory(*volume, volume->root(), "d", 040755);
    make_file(*volume, directory, "f");
    HostRebuild rebuild(volume.inside(), 2, false);
    EXPECT_EQ(rebuild({.user = 7, .group = 7}, directory), Errc::access);
    EXPECT_EQ(rebuild({.user = 0}, directory), Errc::ok);
    EXPECT_EQ(rebuild(anybody, volume->lookup(anybody, directory, "f")->handle),
              Errc::not_directory);
    EXPECT_EQ(rebuild(anybody, {directory.inode, directory.generation + 1}), Errc::stale);
    EXPECT_EQ(volume->close(), Errc::ok);
    expect_clean(*disk);
}

/// Threads that work in a directory until told to stop.
class Executor {
 public:
    Executor(Volume& volume, Handle directory, u32 threads) {
        for (u32 t = 0; t < threads; ++t) {
            threads_.emplace_back([this, &volume, directory, t] {
                while (!is_done_)
                    turn(volume, directory, t);
            });
        }
    }
    ~Executor() {
        is_done_ = true;
        for (std::thread& thread : threads_)
            thread.join();
    }

 private:
    void turn(Volume& volume, Handle directory, u32 thread) {
        const std::string stem = "t" + std::to_string(thread) + ".";
        for (u32 i = 0; i < 400; ++i)
            make_file(volume, directory, stem + std::to_string(i));
        EXPECT_TRUE(volume.lookup(anybody, directory, stem + "7"));
        for (u32 i = 0; i < 1500; i += 31)
            EXPECT_TRUE(volume.lookup(anybody, directory, "stays" + std::to_string(i))) << i;
        u32 staying = 0;
        const Errc listed = volume.read_directory(directory, 0, [&](const DirectoryEntry& entry) {
            staying += entry.name.starts_with("stays") ? 1 : 0;
            return true;
        });
        EXPECT_EQ(listed, Errc::ok);
        EXPECT_EQ(staying, 1500u);
        for (u32 i = 0; i < 400; ++i)
            EXPECT_EQ(volume.unlink(anybody, directory, stem + std::to_string(i)), Errc::ok);
    }

    std::atomic<bool> is_done_{false};
    std::vector<std::thread> threads_;
};

TEST(DirectoryRebuildWork, BesideReadersAndWriters) {
    const auto disk = make_memory_disk(64 * mib);
    InsideVolume volume(*disk);
    const Handle directory = make_directory(*volume, volume->root(), "d");
    for (u32 i = 0; i < 1500; ++i)
        make_file(*volume, directory, "stays" + std::to_string(i));
    {
        Executor executor(*volume, directory, 2);
        HostRebuild rebuild(volume.inside(), 2, false);
        for (u32 round = 0; round < 60; ++round) {
            ASSERT_EQ(rebuild(anybody, directory), Errc::ok);
            if (round % 10 == 0) {
                EXPECT_EQ(volume->sync(), Errc::ok);
            }
        }
    }
    EXPECT_EQ(list_names(*volume, directory).size(), 1500u);
    EXPECT_EQ(volume->close(), Errc::ok);
    expect_clean(*disk);
}

}  // namespace
}  // namespace warren::directory_rebuild_test
