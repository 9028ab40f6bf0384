// SPDX-License-Identifier: Apache-2.0
// Trees of which files share blocks, with each other and with files that stay: a bulk step drops
// their references by itself, beside other teams that change the same counts, and within its share
// of the journal. A check counts all references afterwards.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "fs/volume/tree_remover.hpp"
#include "tests/fs/bulk/reclaimed_volume.hpp"
#include "tests/support/lockstep_team.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/seed.hpp"

namespace warren::shared_removal_test {
namespace {

/// One step by one team, which runs one task after the other.
template <class Team>
void reclaim_all(const Team& team, const core::Store& store, TestStep& step) {
    ops::TreeReclaimer<Team, TestStep> reclaimer(team, store, step);
    ops::TreeTask task;
    while (step.pop(team, task))
        reclaimer.visit(task);
    step.add(reclaimer.tally);
}

void reclaim_by_lanes(const core::Store& store, TestStep& step) {
    Lockstep<4> lanes;
    lanes.run([&](const LockstepTeam<4>& team) { reclaim_all(team, store, step); });
}

u64 dirty_blocks(VolumeImplementation& volume) {
    return relaxed_load(volume.store().state->dirty_blocks);
}

class SharedRemoval : public testing::TestWithParam<bool> {
 public:
    static void reclaim(VolumeImplementation& volume, TestStep& step) {
        if (GetParam()) return reclaim_by_lanes(volume.store(), step);
        reclaim_all(ThreadTeam{}, volume.store(), step);
    }
};
INSTANTIATE_TEST_SUITE_P(ByThreadAndByLanes, SharedRemoval, testing::Bool());

TEST_P(SharedRemoval, isDoneByOneStep) {
    ReclaimedVolume reclaimed({"sharing", 64 * mib, build_sharing});
    TestStep step(reclaimed.volume());
    step.seed(ops::TreeTask::directory(reclaimed.roots()[0], true));
    reclaim(reclaimed.volume(), step);
    reclaimed.end_step(step);
    // One file is open, and one has a tree of extents.
    EXPECT_EQ(reclaimed.files() + 2, reclaimed.tree().files);
    reclaimed.finish(2);
}

/// Files that each share the blocks of a block group of their own, with one that stays.
DoomedTree build_spread(Volume& volume, u32 count) {
    TreeBuilder builder(volume);
    const Handle outside = make_directory(volume, volume.root(), "outside");
    const Handle filler = make_file(volume, outside, "filler");
    for (u32 i = 0; i < count; ++i) {
        const std::string name = "file" + std::to_string(i);
        const Handle file = builder.add_file(builder.root(), name);
        builder.write_run(file, 0, 1);
        builder.write_run(filler, u64{i} * 511, 511);
        builder.share(file, make_file(volume, outside, name));
    }
    return builder.made;
}

/// A step has little room left: it dirties no more counts, and the next ones free the rest.
TEST_P(SharedRemoval, dirtiesNoMoreCountsThanFit) {
    constexpr u32 count = 14;
    constexpr u64 share = 3;
    ReclaimedVolume reclaimed(
        {"spread", 64 * mib, [](Volume& volume) { return build_spread(volume, count); }});
    VolumeImplementation& volume = reclaimed.volume();
    u32 steps = 0;
    for (; !reclaimed.roots().empty() && steps < 2 * count; ++steps) {
        ASSERT_EQ(volume.commit(), Errc::ok);
        TestStep step(volume);
        const u64 before = dirty_blocks(volume);
        step.rules.dirty_max = before + share;
        step.seed(ops::TreeTask::directory(reclaimed.roots()[0], true));
        reclaim(volume, step);
        // The inode bitmap, the frame table and the leaf have credits of their own.
        EXPECT_LE(dirty_blocks(volume), before + share + 3);
        EXPECT_TRUE(step.leftovers.empty());
        reclaimed.end_step(step);
    }
    EXPECT_GT(steps, count / (share + 1));
    reclaimed.finish(0);
}

/// A file that shares the blocks of several block groups, with one that stays.
DoomedTree build_wide(Volume& volume) {
    TreeBuilder builder(volume);
    const Handle outside = make_directory(volume, volume.root(), "outside");
    const Handle filler = make_file(volume, outside, "filler");
    const Handle file = builder.add_file(builder.root(), "file");
    for (u64 i = 0; i < format::inline_extents_max; ++i) {
        builder.write_run(file, 2 * i, 1);
        builder.write_run(filler, i * 511, 511);
    }
    builder.share(file, make_file(volume, outside, "copy"));
    return builder.made;
}

/// As if others used up each step's share of the journal: no step frees the file, and that is no
/// damage.
TEST(SharedRemovalInSteps, endsAlthoughNoStepHasRoom) {
    ReclaimedVolume reclaimed({"wide", 64 * mib, build_wide});
    VolumeImplementation& volume = reclaimed.volume();
    u64& room = volume.store().state->journal_room;
    const u64 whole = std::exchange(room, 8 * (format::inline_extents_max - 1));
    Removal removal;
    EXPECT_EQ(TreeRemover(volume, {}).remove(reclaimed.roots()[0], removal), Errc::ok);
    EXPECT_EQ(removal.directories, 1u);
    room = whole;
    reclaimed.finish(removal.files);
}

/// Files in several directories that all have the same two blocks, those of `kept`.
DoomedTree build_same(Volume& volume, Handle kept, u32 directories, u32 files) {
    TreeBuilder builder(volume);
    for (u32 d = 0; d < directories; ++d) {
        const Handle in = builder.add_directory(builder.root(), "in" + std::to_string(d));
        for (u32 f = 0; f < files; ++f)
            builder.share(kept, builder.add_file(in, "file" + std::to_string(f)));
    }
    return builder.made;
}

/// All workers change the same word of counts, and so does a thread that shares the blocks: the
/// file that goes last frees them, and it alone.
TEST(SharedRemovalRace, losesNoReference) {
    for (const u64 size : {16 * mib, 64 * mib}) {  // the first has the smallest journal
        MemoryVolume volume(size, {.workers = 4});
        for (u32 round = 0; round < 4; ++round) {
            const Handle kept = make_file(*volume, volume->root(), "kept");
            write_run(*volume, kept, 0, 2);
            const DoomedTree tree = build_same(*volume, kept, 8, is_sanitized ? 60 : 400);
            const bool stays = round % 2 == 0;
            if (!stays) {
                EXPECT_EQ(volume->unlink(anybody, volume->root(), "kept"), Errc::ok);
            }
            ASSERT_EQ(volume->sync(), Errc::ok);
            std::atomic<bool> is_over{!stays};
            std::thread sharer([&] {
                while (!is_over.load()) {
                    const Handle copy = make_file(*volume, volume->root(), "copy");
                    share_blocks(*volume, kept, copy, 2);
                    EXPECT_EQ(volume->unlink(anybody, volume->root(), "copy"), Errc::ok);
                }
            });
            Removal removal;
            EXPECT_EQ(volume->remove_tree(anybody, volume->root(), "doomed", removal), Errc::ok);
            is_over.store(true);
            sharer.join();
            EXPECT_EQ(removal.files, tree.files);
            if (stays) {
                EXPECT_EQ(volume->space_of(kept)->shared, 0u);
                EXPECT_EQ(volume->unlink(anybody, volume->root(), "kept"), Errc::ok);
            }
            volume.close_and_check();
            if (HasFailure()) return;
            volume.open();
        }
        expect_counts_agree(*volume);
    }
}

/// Removes the names in a directory one by one, and those below it.
void remove_names(Volume& volume, Handle directory) {
    for (const auto& [name, inode] : list_names(volume, directory)) {
        const Result<Attributes> found = volume.lookup(anybody, directory, name);
        ASSERT_TRUE(found) << name;
        if (format::is_directory(found->mode)) {
            remove_names(volume, found->handle);
            EXPECT_EQ(volume.remove_directory(anybody, directory, name), Errc::ok);
        } else {
            EXPECT_EQ(volume.unlink(anybody, directory, name), Errc::ok);
        }
    }
}

/// How many blocks each file in "outside" shares, and how many are free. The latter depends on how
/// many block groups have counts, and so on where blocks lie, which a GPU does not do twice alike.
std::vector<u64> space_left(Volume& volume) {
    EXPECT_EQ(volume.sync(), Errc::ok);
    std::vector<u64> space;
    if (volume.engine() == "cpu") space.push_back(volume.statistics().blocks_free);
    const Result<Attributes> outside = volume.lookup(anybody, volume.root(), "outside");
    EXPECT_TRUE(outside);
    for (const auto& [name, inode] : list_names(volume, outside->handle)) {
        const Result<Attributes> file = volume.lookup(anybody, outside->handle, name);
        const Result<FileSpace> shares = volume.space_of(file->handle);
        EXPECT_TRUE(shares) << name;
        space.push_back(shares ? shares->shared : ~u64{0});
    }
    return space;
}

/// With all metadata in memory, with none of them when the removal begins, and with a small buffer.
TEST(SharedRemovalOfRandomTrees, leavesWhatSingleRemovalsLeave) {
    const Seed seed;
    for (const u64 meta_buffer : block_maps) {
        for (const bool is_cold : {false, true}) {
            MemoryVolume at_once(64 * mib, {.workers = 2, .meta_buffer_bytes = meta_buffer});
            MemoryVolume by_name(64 * mib, {.workers = 2, .meta_buffer_bytes = meta_buffer});
            DoomedTree tree;
            for (MemoryVolume* const volume : {&at_once, &by_name}) {
                tree = build_random(**volume, seed.value(), 500);
                if (!is_cold) continue;
                volume->close();
                volume->open();
            }
            Removal removal;
            EXPECT_EQ(at_once->remove_tree(anybody, at_once->root(), "doomed", removal), Errc::ok);
            EXPECT_EQ(removal.files, tree.files);
            EXPECT_EQ(removal.directories, tree.directories);
            remove_names(*by_name, by_name->lookup(anybody, by_name->root(), "doomed")->handle);
            EXPECT_EQ(by_name->remove_directory(anybody, by_name->root(), "doomed"), Errc::ok);
            EXPECT_EQ(space_left(*at_once), space_left(*by_name));
            expect_counts_agree(*at_once);
            at_once.close_and_check();
            by_name.close_and_check();
        }
    }
}

}  // namespace
}  // namespace warren::shared_removal_test
