// SPDX-License-Identifier: Apache-2.0
// Bulk commands on an engine whose meta buffer holds only a part of the blocks they need: each of
// their commands waits for its own blocks, and the results are those with all metadata in memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "tests/support/engine_meta_buffer.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/thread_executor.hpp"

namespace warren::engine_meta_buffer_bulk_test {
namespace {

constexpr u64 buffer_blocks = small_meta_buffer / format::block_size;
const Caller anybody{.check = false};

/// A tree of directories with files, made by bulk commands.
class EngineMetaBufferBulk : public EngineMetaBufferTest {
 protected:
    void SetUp() override { open(); }
    Handle make_directory(Handle directory, const std::string& name) {
        return make(directory, name, 040755);
    }
    static constexpr u64 directories = 40;
    static constexpr u64 files = 150;  // of each; their inodes take more than the buffer

    static std::string directory_name(u64 d) { return "directory" + std::to_string(d); }
    static std::string file_name(u64 i) { return "a-file-with-a-longer-name-" + std::to_string(i); }

    void make_tree() {
        tree_ = make_directory(volume_->root(), "tree");
        std::vector<std::string> names;
        for (u64 d = 0; d < directories; ++d)
            names.push_back(directory_name(d));
        std::vector<Creation> creations;
        for (const std::string& name : names)
            creations.push_back({tree_, name, {.mode = 040755}});
        create(creations, parents_);
        names.clear();
        for (u64 i = 0; i < files; ++i)
            names.push_back(file_name(i));
        creations.clear();
        for (u64 i = 0; i < files * directories; ++i)
            creations.push_back({parents_[i % directories], names[i / directories], {}});
        std::vector<Handle> made;
        create(creations, made);
    }
    void create(const std::vector<Creation>& creations, std::vector<Handle>& made) {
        std::vector<Result<Attributes>> results(creations.size(), Errc::io);
        volume_->create_many(anybody, creations, results);
        for (const Result<Attributes>& result : results) {
            ASSERT_EQ(result.code(), Errc::ok);
            made.push_back(result->handle);
        }
    }
    /// The rows that a scan of the tree visits.
    u64 count_below(Handle directory) {
        std::atomic<u64> count = 0;
        EXPECT_EQ(volume_->scan(anybody, directory,
                                [&](const Scanned&) {
                                    ++count;
                                    return true;
                                }),
                  Errc::ok);
        return count - 1;
    }

    Handle tree_;
    std::vector<Handle> parents_;
};

TEST_F(EngineMetaBufferBulk, doesWhatItDoesWithAllInMemory) {
    make_tree();
    EXPECT_EQ(count_below(tree_), directories * (files + 1));
    const Handle other = make_directory(volume_->root(), "other");
    // A third of the names moves to another directory, another third is removed.
    std::vector<Move> moves;
    std::vector<Unlink> removals;
    std::vector<std::string> from(files);
    std::vector<std::string> to(files * directories);
    for (u64 i = 0; i < files; ++i)
        from[i] = file_name(i);
    for (u64 i = 0; i < files * directories; ++i) {
        const Handle parent = parents_[i % directories];
        to[i] = "moved" + std::to_string(i);
        if (i % 3 == 0) moves.push_back({parent, from[i / directories], other, to[i]});
        if (i % 3 == 1) removals.push_back({parent, from[i / directories], false});
    }
    std::vector<Errc> moved(moves.size(), Errc::io);
    volume_->move_many(anybody, moves, moved);
    EXPECT_EQ(std::count(moved.begin(), moved.end(), Errc::ok), static_cast<i64>(moves.size()));
    std::vector<Errc> removed(removals.size(), Errc::io);
    volume_->remove_many(anybody, removals, removed);
    EXPECT_EQ(std::count(removed.begin(), removed.end(), Errc::ok),
              static_cast<i64>(removals.size()));
    std::vector<Lookup> lookups;
    for (const Move& one : moves)
        lookups.push_back({one.to, one.new_name});
    for (const Unlink& one : removals)
        lookups.push_back({one.directory, one.name});
    std::vector<Result<Attributes>> found(lookups.size(), Errc::io);
    volume_->lookup_many(anybody, lookups, found);
    for (std::size_t i = 0; i < found.size(); ++i)
        ASSERT_EQ(found[i].code(), i < moves.size() ? Errc::ok : Errc::no_entry) << i;

    Rebuilt rebuilt;
    EXPECT_EQ(volume_->rebuild(anybody, other, rebuilt), Errc::ok);
    EXPECT_EQ(rebuilt.entries, moves.size());
    EXPECT_LE(rebuilt.blocks_after, rebuilt.blocks_before);
    std::vector<DirectoryUsage> usage;
    EXPECT_EQ(volume_->usage(anybody, tree_, {}, usage), Errc::ok);
    const u64 left = directories * files - moves.size() - removals.size();
    EXPECT_EQ(usage.at(0).entries, 1 + directories + left);
    EXPECT_EQ(count_below(other), moves.size());
    Removal removal;
    EXPECT_EQ(volume_->remove_tree(anybody, volume_->root(), "tree", removal), Errc::ok);
    EXPECT_EQ(removal.files, left);
    EXPECT_EQ(removal.directories, directories + 1);
    EXPECT_EQ(volume_->attributes(tree_).code(), Errc::stale);
    close_and_check();
}

/// Each search for a cycle reads more blocks in a row than the buffer holds.
TEST_F(EngineMetaBufferBulk, movesDirectoriesBelowMoreOthersThanTheBufferHolds) {
    const Handle aside = make_directory(volume_->root(), "aside");
    const Handle top = make_directory(volume_->root(), "top");
    Handle lowest = top;
    std::vector<std::string> names(format::inodes_per_block - 1);
    for (u64 level = 0; level < buffer_blocks + 50; ++level) {
        lowest = make_directory(lowest, "d");
        // Makes the next level's inode lie in another block.
        std::vector<Creation> creations;
        for (u64 i = 0; i < names.size(); ++i) {
            names[i] = std::to_string(level * names.size() + i);
            creations.push_back({aside, names[i], {}});
        }
        std::vector<Handle> made;
        create(creations, made);
    }
    make_directory(volume_->root(), "one");
    make_directory(volume_->root(), "two");
    EXPECT_EQ(volume_->rename(anybody, volume_->root(), "one", lowest, "one"), Errc::ok);
    EXPECT_EQ(volume_->rename(anybody, volume_->root(), "top", lowest, "top"), Errc::invalid);
    const std::vector<Move> moves = {{volume_->root(), "two", lowest, "two"},
                                     {volume_->root(), "top", lowest, "top"}};
    std::vector<Errc> results(moves.size(), Errc::io);
    volume_->move_many(anybody, moves, results);
    EXPECT_EQ(results, (std::vector<Errc>{Errc::ok, Errc::invalid}));
    EXPECT_EQ(volume_->lookup(anybody, lowest, "two").code(), Errc::ok);
    Removal removal;
    EXPECT_EQ(volume_->remove_tree(anybody, volume_->root(), "top", removal), Errc::ok);
    EXPECT_EQ(removal.directories, buffer_blocks + 53);
    close_and_check();
}

TEST_F(EngineMetaBufferBulk, leavesOthersAtWork) {
    const Seed seed;
    make_tree();
    std::atomic<bool> is_over = false;
    std::atomic<u64> answers = 0;
    const auto remove = [&](Random&) {
        while (answers < 20) {
        }
        Removal removal;
        EXPECT_EQ(volume_->remove_tree(anybody, volume_->root(), "tree", removal), Errc::ok);
        EXPECT_EQ(removal.directories, directories + 1);
        is_over = true;
    };
    const Handle home = make_directory(volume_->root(), "home");
    const auto work = [&](Random& random) {
        for (u64 i = 0; !is_over; ++i) {
            const std::string name = std::to_string(random.below(1u << 30));
            EXPECT_EQ(volume_->create(anybody, home, name, {}).code(), Errc::ok);
            EXPECT_EQ(volume_->unlink(anybody, home, name), Errc::ok);
            // A file that is being removed is found or not; there is no other answer.
            const Handle parent = parents_[random.below(directories)];
            const Errc found =
                volume_->lookup(anybody, parent, file_name(random.below(files))).code();
            EXPECT_TRUE(found == Errc::ok || found == Errc::no_entry || found == Errc::stale);
            ++answers;
        }
    };
    run_executor(seed.value(), {remove, work});
    close_and_check();
}

}  // namespace
}  // namespace warren::engine_meta_buffer_bulk_test
