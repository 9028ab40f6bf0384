// SPDX-License-Identifier: Apache-2.0
// Trees reclaimed by teams of one and of four lanes and by many threads: a step frees all that it
// can, the rest stays linked in the orphan directory with its contents, and the volume is
// consistent after each step.
#include <gtest/gtest.h>

#include <functional>

#include "fs/ops/answer.hpp"
#include "fs/ops/rename.hpp"
#include "tests/fs/bulk/host_rebuild.hpp"
#include "tests/fs/bulk/reclaimed_volume.hpp"
#include "tests/support/lockstep_team.hpp"
#include "tests/support/sanitized.hpp"

namespace warren::reclaim_tree_test {
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

struct Limits {
    u64 directories_max = ~u64{0};
    u64 queue_max = ~u64{0};
};

/// How a test drives the lanes of a team.
using Work = std::function<void(const core::Store&, TestStep&)>;

u32 remove_by(const TreeRecipe& recipe, const Limits& limits, const Work& work) {
    ReclaimedVolume reclaimed(recipe);
    u32 steps = 0;
    for (; !reclaimed.roots().empty() && steps < 10'000; ++steps) {
        TestStep step(reclaimed.volume());
        step.directories_max = limits.directories_max;
        step.queue_max = limits.queue_max;
        for (const u64 root : reclaimed.roots())
            step.seed(ops::TreeTask::directory(root, true));
        work(reclaimed.volume().store(), step);
        reclaimed.end_step(step);
        if (testing::Test::HasFailure()) break;
    }
    reclaimed.finish(reclaimed.tree().files - reclaimed.files());
    return steps;
}

void by_thread(const core::Store& store, TestStep& step) {
    reclaim_all(ThreadTeam{}, store, step);
}

void by_lanes(const core::Store& store, TestStep& step) {
    Lockstep<4> lanes;
    lanes.run([&](const LockstepTeam<4>& team) { reclaim_all(team, store, step); });
}

TEST(ReclaimTree, OneThread) {
    for (const TreeRecipe& recipe : small_trees()) {
        SCOPED_TRACE(recipe.label);
        remove_by(recipe, {}, by_thread);
    }
}

TEST(ReclaimTree, FourLanes) {
    for (const TreeRecipe& recipe : small_trees()) {
        SCOPED_TRACE(recipe.label);
        remove_by(recipe, {}, by_lanes);
    }
}

TEST(ReclaimTree, LeftoversStayWithTheirDirectory) {
    ReclaimedVolume reclaimed({"zoo", 64 * mib, build_zoo});
    TestStep step(reclaimed.volume());
    step.seed(ops::TreeTask::directory(reclaimed.roots()[0], true));
    by_lanes(reclaimed.volume().store(), step);
    reclaimed.end_step(step);
    ASSERT_EQ(step.leftovers.size(), 1u);
    // Five files are open, and two have a tree of extents.
    EXPECT_EQ(reclaimed.files() + 7, reclaimed.tree().files);
    reclaimed.finish(7);
}

/// A damaged directory may name an inode that does not exist. Its block is not asked for, which
/// another thread may have reserved until the step ends.
TEST(ReclaimTree, ANumberInUseByNoInodeIsDamage) {
    const auto disk = make_memory_disk(64 * mib);
    InsideVolume inside(*disk);
    make_directory(*inside, inside->root(), "one");  // loads the bitmap
    const core::Store& store = inside.inside().store();
    const u64 number = store.root_inode + 200 * format::inodes_per_block;
    const u64 place = number * format::inode_size;
    ASSERT_FALSE(core::is_resident(store, place));
    ops::FreeTally tally;
    const auto look = [&] { return ops::free_by_lane(store, number, false, {}, tally); };
    EXPECT_EQ(look(), ops::LaneFate::damaged);
    // With an inode, the block is needed.
    const core::InodeBit bit = core::inode_bit(number);
    u64& used =
        reinterpret_cast<format::InodeBitmap*>(store.base + bit.bitmap_place)->used[bit.word];
    used |= bit.mask;
    EXPECT_EQ(look(), ops::LaneFate::absent);
    used &= ~bit.mask;
    EXPECT_EQ(tally.inodes, 0u);
}

constexpr core::Credentials anyone{.check = false};

/// A client that has a handle of a directory may try to create a name in it at any moment.
TEST(ReclaimTree, NoNameIsMadeInADirectoryThatIsTakenApart) {
    for (const u32 files : {0u, 20u, 3000u}) {
        SCOPED_TRACE(files);
        ReclaimedVolume reclaimed({"files", 64 * mib, [files](Volume& volume) {
                                       return build_flat(volume, 1, files, false);
                                   }});
        VolumeImplementation& volume = reclaimed.volume();
        const u64 root = reclaimed.roots()[0];
        const Result<Handle> handle =
            volume.run([&](CpuOperation& op) { return ops::handle_of(op, root); });
        ASSERT_TRUE(handle);
        TestStep step(volume);
        step.on_look = [&] {
            const ops::CreateArguments arguments{.mode = 0100644};
            const auto made = volume.run([&](CpuOperation& op) {
                return ops::create(op, anyone, *handle, "late", 4, arguments);
            });
            EXPECT_EQ(made.code(), Errc::no_entry);
        };
        step.seed(ops::TreeTask::directory(root, true));
        by_thread(volume.store(), step);
        reclaimed.end_step(step);
        reclaimed.finish(0);
    }
}

/// Its name in the orphan directory goes later and would collide with that of a new owner.
TEST(ReclaimTree, TheNumberOfAnEmptiedRootIsKeptUntilItsNameIsGone) {
    ReclaimedVolume reclaimed(
        {"deep", 64 * mib, [](Volume& volume) { return build_deep(volume, 10); }});
    VolumeImplementation& volume = reclaimed.volume();
    const u64 root = reclaimed.roots()[0];
    TestStep step(volume);
    step.seed(ops::TreeTask::directory(root, true));
    by_thread(volume.store(), step);
    ASSERT_EQ(step.emptied_roots, std::vector<u64>{root});
    const Result<Handle> top =
        volume.run([&](CpuOperation& op) { return ops::handle_of(op, op.store.root_inode); });
    const ops::CreateArguments arguments{.mode = 0100644, .references = ops::one_open};
    for (u32 i = 0; i < 40; ++i) {
        const std::string name = "new" + std::to_string(i);
        const auto made = volume.run([&](CpuOperation& op) {
            return ops::create(op, anyone, *top, name.data(), static_cast<u32>(name.size()),
                               arguments);
        });
        ASSERT_TRUE(made);
        EXPECT_NE(made->handle.inode, root);
        EXPECT_EQ(volume.remove_name<ops::Verb::unlink>({.check = false}, *top, name), Errc::ok);
    }
    reclaimed.end_step(step);
    reclaimed.finish(0);
}

TEST(ReclaimTree, WhatIsNotBegunCostsTheJournalNothing) {
    ReclaimedVolume reclaimed(
        {"files", 64 * mib, [](Volume& volume) { return build_flat(volume, 1, 3000, false); }});
    VolumeImplementation& volume = reclaimed.volume();
    ASSERT_EQ(volume.commit(), Errc::ok);
    TestStep step(volume);
    step.looks_max = 1;  // the directory is claimed, but none of its leaves is looked at
    step.seed(ops::TreeTask::directory(reclaimed.roots()[0], true));
    by_lanes(volume.store(), step);
    EXPECT_EQ(step.aside, reclaimed.roots());
    EXPECT_TRUE(step.leftovers.empty());
    EXPECT_EQ(relaxed_load(volume.store().state->dirty_blocks), 0u);
    reclaimed.end_step(step);
    TestStep next(volume);
    next.seed(ops::TreeTask::directory(reclaimed.roots()[0], true));
    by_lanes(volume.store(), next);
    reclaimed.end_step(next);
    reclaimed.finish(0);
}

/// A tree below a dying root may be removed separately; the dying root has no link to lose.
TEST(ReclaimTree, DetachingBelowADyingRoot) {
    ReclaimedVolume reclaimed(
        {"mix", 64 * mib, [](Volume& volume) { return build_flat(volume, 3, 2, true); }});
    VolumeImplementation& volume = reclaimed.volume();
    const u64 root = reclaimed.roots()[0];
    const Result<Handle> handle =
        volume.run([&](CpuOperation& op) { return ops::handle_of(op, root); });
    const Result<Handle> inner = volume.run([&](CpuOperation& op) {
        return ops::detach_tree(op, anyone, *handle, "parent1", 7, now_nanoseconds());
    });
    ASSERT_TRUE(inner);
    const auto attributes =
        volume.run([&](CpuOperation& op) { return ops::get_attributes(op, *handle, 0); });
    ASSERT_TRUE(attributes);
    EXPECT_EQ(attributes->links, 0u);
    TestStep step(volume);
    step.seed(ops::TreeTask::directory(root, true));
    step.seed(ops::TreeTask::directory(inner->inode, true));
    by_thread(volume.store(), step);
    reclaimed.end_step(step);
    reclaimed.finish(0);
}

/// A directory that waits for the next step may get a child whose inode number was that of its
/// former parent: a search for cycles must not follow that number upwards.
TEST(ReclaimTree, NothingLeadsUpFromWhatWaits) {
    ReclaimedVolume reclaimed(
        {"deep", 64 * mib, [](Volume& volume) { return build_deep(volume, 4); }});
    VolumeImplementation& volume = reclaimed.volume();
    const u64 root = reclaimed.roots()[0];
    TestStep step(volume);
    step.directories_max = 2;  // the root goes, the one below it waits
    step.seed(ops::TreeTask::directory(root, true));
    by_thread(volume.store(), step);
    reclaimed.end_step(step);
    ASSERT_EQ(step.emptied_roots, std::vector<u64>{root});
    ASSERT_EQ(step.aside.size(), 1u);
    const auto handle_of = [&](u64 number) {
        return *volume.run([&](CpuOperation& op) { return ops::handle_of(op, number); });
    };
    const auto make = [&](Handle in, const std::string& name) {
        const ops::CreateArguments arguments{.mode = 040755};
        const auto made = volume.run([&](CpuOperation& op) {
            return ops::create(op, anyone, in, name.data(), static_cast<u32>(name.size()),
                               arguments);
        });
        EXPECT_TRUE(made);
        return made->handle;
    };
    const Handle waiting = handle_of(step.aside[0]);
    Handle below;
    for (u32 i = 0; i < 100 && below.inode != root; ++i)
        below = make(waiting, std::to_string(i));
    ASSERT_EQ(below.inode, root);
    const Handle top = handle_of(volume.store().root_inode);
    make(top, "mover");
    const auto moved = volume.run([&](CpuOperation& op) {
        return ops::rename(op, anyone, top, "mover", 5, below, "moved", 5, Rename::replace, 1);
    });
    EXPECT_EQ(moved.code(), Errc::no_entry);
    EXPECT_EQ(volume.remove_name<ops::Verb::remove_directory>({.check = false}, top, "mover"),
              Errc::ok);
}

TEST(ReclaimTree, ManySteps) {
    for (const TreeRecipe& recipe : small_trees()) {
        SCOPED_TRACE(recipe.label);
        remove_by(recipe, {.directories_max = 7}, by_thread);
        remove_by(recipe, {.directories_max = 7}, by_lanes);
    }
}

/// The step ends when some nodes of the tree are freed and the nodes after them are not.
TEST(ReclaimTree, CutOffBetweenTwoStepsOfALargeDirectory) {
    for (const Work& work : {Work(by_thread), Work(by_lanes)}) {
        for (const u32 names : {30'000u, 90'000u}) {
            if (is_sanitized && names > 30'000) continue;
            SCOPED_TRACE(names);
            ReclaimedVolume reclaimed({"large", 64 * mib, [names](Volume& volume) {
                                           return build_flat(volume, 1, names, false);
                                       }});
            u32 late = 0;
            for (u32 steps = 0; !reclaimed.roots().empty() && steps < 100; ++steps) {
                TestStep step(reclaimed.volume());
                step.looks_max = names / 300;
                step.seed(ops::TreeTask::directory(reclaimed.roots()[0], true));
                work(reclaimed.volume().store(), step);
                reclaimed.end_step(step);
                late += reclaimed.has_late_node() ? 1 : 0;
                if (steps % case_step == 0) reclaimed.expect_sound_if_cut_off();
                if (HasFailure()) return;
            }
            EXPECT_GT(late, 0u);
            reclaimed.finish(0);
        }
    }
}

/// Reclaims a directory until the first key of a node is greater than the key in its parent.
void do_steps(ReclaimedVolume& reclaimed, u64 looks) {
    while (!reclaimed.has_late_node() && !reclaimed.roots().empty()) {
        TestStep step(reclaimed.volume());
        step.looks_max = looks;
        step.seed(ops::TreeTask::directory(reclaimed.roots()[0], true));
        by_thread(reclaimed.volume().store(), step);
        reclaimed.end_step(step);
    }
    ASSERT_EQ(reclaimed.roots().size(), 1u);
}

/// A client that has its handle may ask for a rebuild: a dying directory is left alone.
TEST(ReclaimTree, ALargeDirectoryThatWasBegunIsNotPacked) {
    ReclaimedVolume reclaimed(
        {"large", 64 * mib, [](Volume& volume) { return build_flat(volume, 1, 30'000, false); }});
    do_steps(reclaimed, 200);
    VolumeImplementation& volume = reclaimed.volume();
    const Result<Handle> handle =
        volume.run([&](CpuOperation& op) { return ops::handle_of(op, reclaimed.roots()[0]); });
    ASSERT_TRUE(handle);
    ops::Command command;
    command.handle = *handle;
    command.caller = anyone;
    command.mode = 1;  // the height of nodes
    for (const ops::Pack how : {ops::Pack::leaves, ops::Pack::nodes, ops::Pack::root}) {
        command.how = static_cast<u8>(how);
        const Result<ops::Packed> packed =
            volume.run([&](CpuOperation& op) { return ops::pack(op, command); });
        ASSERT_TRUE(packed);
        EXPECT_TRUE(packed->is_done);
    }
    HostRebuild rebuild(volume, 2, false);
    EXPECT_EQ(rebuild(anybody, *handle), Errc::ok);
    EXPECT_TRUE(reclaimed.has_late_node());
    EXPECT_EQ(volume.commit(), Errc::ok);
    reclaimed.expect_sound_if_cut_off();
    Removal removal;
    EXPECT_EQ(volume.remove_by_names(reclaimed.roots()[0], removal), Errc::ok);
    reclaimed.finish(removal.files);
}

/// The remainder may be removed name by name: then the nodes of such a tree go one by one.
TEST(ReclaimTree, NamesOfALargeDirectoryThatWasBegun) {
    ReclaimedVolume reclaimed(
        {"large", 64 * mib, [](Volume& volume) { return build_flat(volume, 1, 90'000, false); }});
    do_steps(reclaimed, 200);
    Removal removal;
    EXPECT_EQ(reclaimed.volume().remove_by_names(reclaimed.roots()[0], removal), Errc::ok);
    reclaimed.finish(removal.files);
}

TEST(ReclaimTree, SmallQueue) {
    for (const TreeRecipe& recipe : small_trees()) {
        SCOPED_TRACE(recipe.label);
        remove_by(recipe, {.queue_max = 40}, by_thread);
        remove_by(recipe, {.queue_max = 40}, by_lanes);
    }
}

TEST(ReclaimTree, RandomTrees) {
    for (u64 seed = 1; seed <= 12; seed += volume_step) {
        SCOPED_TRACE(seed);
        const TreeRecipe recipe{"random", 64 * mib,
                                [seed](Volume& volume) { return build_random(volume, seed, 700); }};
        const bool is_even = seed / volume_step % 2 == 0;
        remove_by(recipe, {}, is_even ? by_lanes : by_thread);
        remove_by(recipe, {.directories_max = 1 + seed}, is_even ? by_thread : by_lanes);
    }
}

}  // namespace
}  // namespace warren::reclaim_tree_test
