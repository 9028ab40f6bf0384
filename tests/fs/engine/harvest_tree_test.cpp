// SPDX-License-Identifier: Apache-2.0
// Trees taken apart by teams of one and of four lanes and by many threads: everything that a step
// can free goes, the rest hangs on the orphan directory with what it holds, and the volume is sound
// after each step.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "fs/engine/cuda/bulk_queue.hpp"
#include "fs/ops/harvest_tree.hpp"
#include "fs/ops/references.hpp"
#include "fs/ops/remove_tree.hpp"
#include "fs/ops/rename.hpp"
#include "fs/volume/superblock_io.hpp"
#include "fs/volume/volume_implementation.hpp"
#include "tests/fs/engine/removal_trees.hpp"
#include "tests/support/lockstep_team.hpp"
#include "tests/support/memory_volume.hpp"

namespace warren {
namespace {

/// What a step of a test allows, and what it tells. Members take the place of the engine's.
class TestStep {
 public:
    ops::LaneRules rules{now_nanoseconds(), ~u64{0}};
    std::function<void()> on_look;  // called before a directory is begun and before each leaf
    u64 looks_max = ~u64{0};        // at is_full() until it is
    u64 directories_max = ~u64{0};  // begun in one step
    u64 queue_max = ~u64{0};

    explicit TestStep(VolumeImplementation& volume) : volume_(volume) {}

    const core::Store& near(const core::Store& store) const { return store; }
    template <class Team>
    bool is_full(const Team& team) {
        return once(team, [&] {
            if (on_look) on_look();
            return begun_ >= directories_max || looks_++ >= looks_max;
        });
    }
    template <class Team>
    bool push(const Team& team, bool mine, const ops::TreeTask& task) {
        const u32 votes = team.ballot(mine);
        const bool fits = once(team, [&] { return tasks_.size() + 32 <= queue_max; });
        for (u32 left = votes; left != 0 && fits; left &= left - 1) {
            const auto one = team.broadcast(task, static_cast<u32>(hd::countr_zero(left)));
            once(team, [&] { tasks_.push_back(one); });
        }
        return fits;
    }
    bool is_listed(u64 /*number*/, u64 /*in*/) const { return false; }
    void set_aside(const ops::TreeTask& task, bool has_leftovers) {
        std::lock_guard lock(mutex_);
        aside.push_back(task.number());
        if (has_leftovers) leftovers.push_back(task.number());
    }
    void freed(const ops::TreeTask& /*task*/) {}
    void emptied(const ops::TreeTask& task) {
        std::lock_guard lock(mutex_);
        emptied_roots.push_back(task.number());
    }
    bool want(u64 place) {
        std::lock_guard lock(mutex_);
        return volume_.loader().load(place) == Errc::ok;
    }
    void fail(Errc code) {
        std::lock_guard lock(mutex_);
        error = code;
    }
    void pause() { std::this_thread::yield(); }

    template <class Team>
    bool pop(const Team& team, ops::TreeTask& task) {
        task = once(team, [&] {
            if (tasks_.empty()) return ops::TreeTask{};
            const ops::TreeTask first = tasks_.front();
            tasks_.pop_front();
            if (first.kind() == ops::TreeTask::directory_kind) ++begun_;
            return first;
        });
        return task.subject != 0;
    }
    void seed(const ops::TreeTask& task) { tasks_.push_back(task); }
    void add(const ops::FreeTally& tally) {
        std::lock_guard lock(mutex_);
        total.files += tally.files;
        total.directories += tally.directories;
        total.inodes += tally.inodes;
        total.blocks += tally.blocks;
    }

    std::vector<u64> aside;
    std::vector<u64> leftovers;
    std::vector<u64> emptied_roots;
    Errc error = Errc::ok;
    ops::FreeTally total;

 private:
    VolumeImplementation& volume_;
    std::mutex mutex_;
    std::deque<ops::TreeTask> tasks_;
    u64 begun_ = 0;
    u64 looks_ = 0;
};

/// A volume whose tree "doomed" is removed step by step.
class HarvestedVolume {
 public:
    explicit HarvestedVolume(const TreeRecipe& recipe)
        : disk_(make_memory_disk(recipe.size_bytes)) {
        {
            const auto volume = open_on(*disk_, {.engine = EngineChoice::cpu});
            before_ = volume->statistics().inodes_used;
            tree_ = recipe.build(*volume);
            built_ = volume->statistics().inodes_used;
            EXPECT_EQ(volume->close(), Errc::ok);
        }
        format::Superblock superblock;
        EXPECT_EQ(read_superblock(*disk_, "image", superblock).code, Errc::ok);
        volume_ = std::make_unique<VolumeImplementation>(
            std::make_unique<FaultDisk>(*disk_), superblock,
            OpenOptions{.workers = 1, .engine = EngineChoice::cpu});
        EXPECT_EQ(volume_->start(), Errc::ok);
        for (const Handle file : tree_.to_open)
            EXPECT_EQ(volume_->run([&](CpuOperation& op) { return ops::open_file(op, file); }),
                      Errc::ok);
        const core::Credentials anybody{.check = false};
        const Result<Handle> root =
            volume_->run([&](CpuOperation& op) { return ops::handle_of(op, op.store.root_inode); });
        const Result<Handle> detached = volume_->run([&](CpuOperation& op) {
            return ops::detach_tree(op, anybody, *root, "doomed", 6, now_nanoseconds());
        });
        EXPECT_TRUE(detached);
        roots_ = {detached->inode};
    }

    VolumeImplementation& volume() { return *volume_; }
    const std::vector<u64>& roots() const { return roots_; }

    /// Does what comes behind a step.
    void end_step(const TestStep& step) {
        EXPECT_EQ(step.error, Errc::ok);
        core::StoreState& state = *volume_->store().state;
        state.blocks_used -= step.total.blocks;
        state.inodes_used -= step.total.inodes;
        files_ += step.total.files;
        directories_ += step.total.directories + step.emptied_roots.size();
        for (const u64 root : step.emptied_roots) {
            const auto ended = volume_->run(
                [&](CpuOperation& op) { return ops::end_emptied(op, root, step.rules.now); });
            ASSERT_TRUE(ended);
            EXPECT_EQ(volume_->settle(*ended), Errc::ok);
        }
        for (const u64 number : step.aside) {
            EXPECT_EQ(volume_->run([&](CpuOperation& op) {
                return ops::adopt_orphan(op, number, step.rules.now);
            }),
                      Errc::ok);
        }
        // Those that hold what needs an operation of its own are done with.
        roots_.clear();
        for (const u64 number : step.aside) {
            const auto& kept = step.leftovers;
            if (std::find(kept.begin(), kept.end(), number) == kept.end()) {
                roots_.push_back(number);
            }
        }
        EXPECT_EQ(volume_->commit(), Errc::ok);
    }

    /// Closes the volume; it must be sound, and hold nothing of the tree when it was opened again.
    void finish(u64 left_files) {
        EXPECT_EQ(files_ + left_files, tree_.files);
        if (left_files == 0) {
            EXPECT_EQ(directories_, tree_.directories);
        }
        EXPECT_EQ(volume_->close(), Errc::ok);
        volume_.reset();
        if (!expect_clean(*disk_)) return;
        const auto again = open_on(*disk_);
        expect_counts_agree(*again);
        EXPECT_EQ(list_names(*again, again->root()).count("doomed"), 0u);
        EXPECT_EQ(again->close(), Errc::ok);
        expect_clean(*disk_);
    }

    u64 files() const { return files_; }
    const DoomedTree& tree() const { return tree_; }

 private:
    std::unique_ptr<MemoryDisk> disk_;
    std::unique_ptr<VolumeImplementation> volume_;
    DoomedTree tree_;
    std::vector<u64> roots_;
    u64 before_ = 0;
    u64 built_ = 0;
    u64 files_ = 0;
    u64 directories_ = 0;
};

/// One step by one team, which does one task after the other.
template <class Team>
void harvest_all(const Team& team, const core::Store& store, TestStep& step) {
    ops::Harvester<Team, TestStep> harvester(team, store, step);
    ops::TreeTask task;
    while (step.pop(team, task))
        harvester.visit(task);
    step.add(harvester.tally);
}

struct Limits {
    u64 directories_max = ~u64{0};
    u64 queue_max = ~u64{0};
};

/// How the lanes of a test's team are made to work.
using Work = std::function<void(const core::Store&, TestStep&)>;

u32 remove_by(const TreeRecipe& recipe, const Limits& limits, const Work& work) {
    HarvestedVolume harvested(recipe);
    u32 steps = 0;
    for (; !harvested.roots().empty() && steps < 10'000; ++steps) {
        TestStep step(harvested.volume());
        step.directories_max = limits.directories_max;
        step.queue_max = limits.queue_max;
        for (const u64 root : harvested.roots())
            step.seed(ops::TreeTask::directory(root, true));
        work(harvested.volume().store(), step);
        harvested.end_step(step);
        if (testing::Test::HasFailure()) break;
    }
    harvested.finish(harvested.tree().files - harvested.files());
    return steps;
}

void by_thread(const core::Store& store, TestStep& step) {
    harvest_all(ThreadTeam{}, store, step);
}

void by_lanes(const core::Store& store, TestStep& step) {
    Lockstep<4> lanes;
    lanes.run([&](const LockstepTeam<4>& team) { harvest_all(team, store, step); });
}

TEST(HarvestTree, OneThread) {
    for (const TreeRecipe& recipe : small_trees()) {
        SCOPED_TRACE(recipe.label);
        remove_by(recipe, {}, by_thread);
    }
}

TEST(HarvestTree, FourLanes) {
    for (const TreeRecipe& recipe : small_trees()) {
        SCOPED_TRACE(recipe.label);
        remove_by(recipe, {}, by_lanes);
    }
}

TEST(HarvestTree, LeftoversStayWithTheirDirectory) {
    HarvestedVolume harvested({"zoo", 64 * mib, build_zoo});
    TestStep step(harvested.volume());
    step.seed(ops::TreeTask::directory(harvested.roots()[0], true));
    by_lanes(harvested.volume().store(), step);
    harvested.end_step(step);
    ASSERT_EQ(step.leftovers.size(), 1u);
    // Five are open, and two have a tree of extents.
    EXPECT_EQ(harvested.files() + 7, harvested.tree().files);
    harvested.finish(7);
}

constexpr core::Credentials anyone{.check = false};

/// Whoever has a handle of a directory may ask for a name in it at any moment.
TEST(HarvestTree, NoNameIsMadeInADirectoryThatIsTakenApart) {
    for (const u32 files : {0u, 20u, 3000u}) {
        SCOPED_TRACE(files);
        HarvestedVolume harvested({"files", 64 * mib, [files](Volume& volume) {
                                       return build_flat(volume, 1, files, false);
                                   }});
        VolumeImplementation& volume = harvested.volume();
        const u64 root = harvested.roots()[0];
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
        harvested.end_step(step);
        harvested.finish(0);
    }
}

/// Its name among the orphans goes later: an inode that got the number could not get there.
TEST(HarvestTree, TheNumberOfAnEmptiedRootIsKeptUntilItsNameIsGone) {
    HarvestedVolume harvested(
        {"deep", 64 * mib, [](Volume& volume) { return build_deep(volume, 10); }});
    VolumeImplementation& volume = harvested.volume();
    const u64 root = harvested.roots()[0];
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
        EXPECT_EQ(volume.unlink({.check = false}, *top, name), Errc::ok);
    }
    harvested.end_step(step);
    harvested.finish(0);
}

TEST(HarvestTree, WhatIsNotBegunCostsTheJournalNothing) {
    HarvestedVolume harvested(
        {"files", 64 * mib, [](Volume& volume) { return build_flat(volume, 1, 3000, false); }});
    VolumeImplementation& volume = harvested.volume();
    ASSERT_EQ(volume.commit(), Errc::ok);
    TestStep step(volume);
    step.looks_max = 1;  // the directory is claimed, but none of its leaves is looked at
    step.seed(ops::TreeTask::directory(harvested.roots()[0], true));
    by_lanes(volume.store(), step);
    EXPECT_EQ(step.aside, harvested.roots());
    EXPECT_TRUE(step.leftovers.empty());
    EXPECT_EQ(relaxed_load(volume.store().state->dirty_blocks), 0u);
    harvested.end_step(step);
    TestStep next(volume);
    next.seed(ops::TreeTask::directory(harvested.roots()[0], true));
    by_lanes(volume.store(), next);
    harvested.end_step(next);
    harvested.finish(0);
}

/// A tree within a dying tree may be taken away by itself; the dying root has no link to lose.
TEST(HarvestTree, DetachingBelowADyingRoot) {
    HarvestedVolume harvested(
        {"mix", 64 * mib, [](Volume& volume) { return build_flat(volume, 3, 2, true); }});
    VolumeImplementation& volume = harvested.volume();
    const u64 root = harvested.roots()[0];
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
    harvested.end_step(step);
    harvested.finish(0);
}

/// A directory that waits for the next step may get one below it that has the number of the one
/// that was above it: who looks for circles must not walk in one.
TEST(HarvestTree, NothingLeadsUpFromWhatWaits) {
    HarvestedVolume harvested(
        {"deep", 64 * mib, [](Volume& volume) { return build_deep(volume, 4); }});
    VolumeImplementation& volume = harvested.volume();
    const u64 root = harvested.roots()[0];
    TestStep step(volume);
    step.directories_max = 2;  // the root goes, the one below it waits
    step.seed(ops::TreeTask::directory(root, true));
    by_thread(volume.store(), step);
    harvested.end_step(step);
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
    EXPECT_EQ(volume.remove_directory({.check = false}, top, "mover"), Errc::ok);
}

TEST(HarvestTree, ManySteps) {
    for (const TreeRecipe& recipe : small_trees()) {
        SCOPED_TRACE(recipe.label);
        remove_by(recipe, {.directories_max = 7}, by_thread);
        remove_by(recipe, {.directories_max = 7}, by_lanes);
    }
}

TEST(HarvestTree, SmallQueue) {
    for (const TreeRecipe& recipe : small_trees()) {
        SCOPED_TRACE(recipe.label);
        remove_by(recipe, {.queue_max = 40}, by_thread);
        remove_by(recipe, {.queue_max = 40}, by_lanes);
    }
}

TEST(HarvestTree, RandomTrees) {
    for (u64 seed = 1; seed <= 12; ++seed) {
        SCOPED_TRACE(seed);
        const TreeRecipe recipe{"random", 64 * mib,
                                [seed](Volume& volume) { return build_random(volume, seed, 700); }};
        remove_by(recipe, {}, seed % 2 == 0 ? by_lanes : by_thread);
        remove_by(recipe, {.directories_max = 1 + seed}, seed % 2 == 0 ? by_thread : by_lanes);
    }
}

}  // namespace
}  // namespace warren
