// SPDX-License-Identifier: Apache-2.0
// create_many(), move_many(), remove_many() and lookup_many() against the same items one by one
// on another volume: items that depend on each other, directories that the caller may not change,
// invalid names, trees of every height, full volumes, and journals that are too small for a
// batch.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/fs/volume/batch_twins.hpp"
#include "tests/support/seed.hpp"

namespace warren::batches_test {
namespace {

TEST(Batches, DoWhatTheirItemsDoOneByOne) {
    const Seed seed;
    BatchTwins twins(512 * mib);
    run_random(twins, seed.value(), 60, 400, 600);
}

TEST(Batches, DoSoWithManyItems) {
    const Seed seed;
    BatchTwins twins(512 * mib);
    run_random(twins, seed.value(), 12, 100'000, 8'000);
}

TEST(Batches, DoSoWhenHashesCollide) {
    const Seed seed;
    constexpr u64 few_bits = u64{0xff} << 47 | u64{1};
    BatchTwins twins(512 * mib, few_bits);
    run_random(twins, seed.value(), 30, 300, 200);
}

TEST(Batches, DoSoWithASmallJournal) {
    const Seed seed;
    BatchTwins twins(64 * mib);
    run_random(twins, seed.value(), 12, 20'000, 5'000);
}

/// Moves files whose inodes lie in more blocks than a transaction holds, from each of the
/// `directories` to another one.
void move_more_than_a_commit_holds(u32 directories, u32 files_in_each) {
    SCOPED_TRACE(files_in_each);
    BatchTwins twins(64 * mib);
    for (u32 i = 0; i < 2 * directories; ++i)
        twins.add_directory(0, "directory" + std::to_string(i), 0755, root_user);
    std::vector<BatchTwins::Item> items;
    for (u32 from = 1; from <= directories; ++from) {
        for (const auto& item : files_to(from, from + directories, 1, 0, files_in_each))
            items.push_back(item);
    }
    twins.create(root_user, items);
    twins.sync();
    twins.move(root_user, items);
    twins.sync();
    twins.end();
}

TEST(Batches, MoveMoreFilesThanACommitHolds) {
    for (const u32 files : {6000u, 6001u})
        move_more_than_a_commit_holds(1, files);
}

TEST(Batches, MoveMoreFilesInPlaceThanACommitHolds) {
    move_more_than_a_commit_holds(200, 30);
}

/// Creates files in one directory, moves them to another, and moves them back in two halves.
void fill_and_move(u64 count) {
    SCOPED_TRACE(count);
    BatchTwins twins(512 * mib);
    twins.add_directory(0, "one", 0755, root_user);
    twins.add_directory(0, "two", 0755, root_user);
    std::vector<BatchTwins::Item> items(count);
    for (u64 i = 0; i < count; ++i) {
        items[i].from = 1;
        items[i].to = 2;
        items[i].name = "file" + std::to_string(i);
        items[i].new_name = items[i].name;
    }
    twins.create(root_user, items);
    twins.look_up(root_user, items);
    twins.move(root_user, items);
    twins.compare();
    for (BatchTwins::Item& item : items)
        std::swap(item.from, item.to);
    const auto half = items.begin() + static_cast<std::ptrdiff_t>(count / 2);
    twins.move(root_user, {items.begin(), half});
    twins.compare();
    twins.move(root_user, {half, items.end()});
    twins.end();
}

TEST(Batches, MakeTreesOfAllHeights) {
    for (const u64 count : {16u, 77u, 78u, 700u, 20'000u})
        fill_and_move(count);
}

void move_there_and_back(BatchTwins& twins, std::vector<BatchTwins::Item> items) {
    for (u32 round = 0; round < 4; ++round) {
        twins.move(root_user, items);
        twins.compare();
        if (round == 1) twins.sync();
        for (BatchTwins::Item& item : items)
            std::swap(item.from, item.to);
    }
}

TEST(Batches, MoveFewFilesWhereTheyLie) {
    constexpr u32 directories = 30;
    constexpr u32 files = 2000;
    BatchTwins twins(512 * mib);
    for (u32 i = 0; i <= directories; ++i)
        twins.add_directory(0, "directory" + std::to_string(i), 0755, root_user);
    twins.create(root_user, files_to(1, 1, 1, 0, files));
    const u64 blocks = twins.blocks(1);
    ASSERT_GT(blocks, 20u);
    // One file into each directory, which has no leaf, or has one from earlier.
    move_there_and_back(twins, files_to(1, 2, directories, 0, directories));
    EXPECT_EQ(twins.blocks(2), 0u);
    twins.move(root_user, files_to(1, 2, directories, 0, directories));
    move_there_and_back(twins, files_to(1, 2, directories, directories, 3 * directories));
    EXPECT_EQ(twins.blocks(2), 1u);
    // Many files into one directory, as many as its leaf holds.
    move_there_and_back(twins, files_to(1, 2, 1, 500, 530));
    // The large directory was not rewritten.
    EXPECT_EQ(twins.blocks(1), blocks);
    // Renames within one directory.
    std::vector<BatchTwins::Item> items = files_to(1, 1, 1, 600, 630);
    for (BatchTwins::Item& item : items)
        item.new_name += "new";
    twins.move(root_user, items);
    // The hash of a new name is random (the key is): a full leaf there is split.
    EXPECT_GE(twins.blocks(1), blocks);
    EXPECT_LE(twins.blocks(1), blocks + items.size());
    twins.end();
}

TEST(Batches, MoveMoreThanLeavesHold) {
    BatchTwins twins(512 * mib);
    twins.add_directory(0, "many", 0755, root_user);
    twins.add_directory(0, "few", 0755, root_user);
    twins.create(root_user, files_to(1, 1, 1, 0, 600));
    // Into an empty directory; more than its leaf holds; more than one pass reads; then all out.
    twins.move(root_user, files_to(1, 2, 1, 0, 60));
    twins.compare();
    EXPECT_EQ(twins.blocks(2), 1u);
    twins.move(root_user, files_to(1, 2, 1, 60, 120));
    twins.compare();
    EXPECT_GT(twins.blocks(2), 1u);
    twins.move(root_user, files_to(1, 2, 1, 120, 330));
    twins.move(root_user, files_to(2, 1, 1, 0, 330));
    EXPECT_EQ(twins.blocks(2), 0u);
    std::vector<BatchTwins::Item> items = files_to(1, 2, 1, 0, 20);
    for (BatchTwins::Item& item : items)
        item.new_name = std::string(230, 'x') + item.name;
    twins.move(root_user, items);
    twins.end();
}

TEST(Batches, EndWhereTheVolumeIsFull) {
    MemoryVolume volume(16 * mib, {.workers = 2});
    const u64 inodes_before = volume->statistics().inodes_used;
    std::vector<std::string> names;
    for (u64 i = 0; i < 40'000; ++i)
        names.push_back(std::string(200, 'n') + std::to_string(i));
    std::vector<Creation> creations;
    for (const std::string& name : names)
        creations.push_back({volume->root(), name, {}});
    std::vector<Result<Attributes>> results(names.size(), Errc::io);
    volume->create_many(root_user, creations, results);
    u64 made = 0;
    for (const Result<Attributes>& result : results) {
        made += result ? 1 : 0;
        ASSERT_TRUE(result || result.code() == Errc::no_space);
    }
    EXPECT_GT(made, 1000u);
    EXPECT_LT(made, names.size());
    EXPECT_EQ(volume->statistics().inodes_used, inodes_before + made);
    volume.close_and_check();
}

}  // namespace
}  // namespace warren::batches_test
