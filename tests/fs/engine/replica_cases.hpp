// SPDX-License-Identifier: Apache-2.0
// What a replica must have in its image, wherever that is kept: after each refresh the state of one
// moment, bit by bit, whatever operations run meanwhile.
//
// `Image` is the memory of a replica: Image(const core::Store& of); Image::is_there(); look(): the
// image where the host can read it.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "fs/bulk/remove_tree/claimed_root.hpp"
#include "fs/commit/free_frames.hpp"
#include "fs/engine/cpu/cpu_engine.hpp"
#include "fs/engine/replica/replica.hpp"
#include "tests/fs/bulk/scan_answers.hpp"
#include "tests/support/host_replica.hpp"
#include "tests/support/random_operations.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// A volume with a replica in an `Image`, and at each moment of a version a second image, taken
/// block by block without regard to marks.
template <class Image>
class ReplicatedVolume {
 public:
    explicit ReplicatedVolume(u64 size_bytes) : disk_(make_memory_disk(size_bytes)) { open(); }

    /// Closes the volume and opens it again, with a new replica.
    void open() {
        replica_.reset();
        volume_.reset();
        volume_ = std::make_unique<InsideVolume>(*disk_);
        ASSERT_EQ(inside().mark_changes(), Errc::ok);
        const auto make_memory = [this](std::unique_ptr<ReplicaMemory>& made) {
            auto memory = std::make_unique<Image>(inside().store());
            memory_ = memory.get();
            made = std::move(memory);
            return Errc::ok;
        };
        replica_ = std::make_unique<Replica>(
            inside().store(),
            [this](const std::function<void()>& action) {
                inside().committer().freeze([&] {
                    action();
                    if (!compares) return;
                    wanted_ = std::make_unique<HostReplica>(inside().store());
                    wanted_->take_all();
                });
            },
            for_each_in_turn, make_memory);
    }

    Volume& operator*() { return **volume_; }
    Volume* operator->() { return &**volume_; }
    InsideVolume& outer() { return *volume_; }
    VolumeImplementation& inside() { return volume_->inside(); }
    Replica& replica() { return *replica_; }
    Image& memory() { return *memory_; }

    /// A new version must equal the volume. False if the test has failed.
    bool expect_equal(bool beside_others = false) {
        EXPECT_EQ(replica_->refresh(), Errc::ok);
        const std::string found = difference(wanted_->image(), memory_->look(), beside_others);
        EXPECT_EQ(found, "") << "in version " << replica_->version();
        return found.empty();
    }

    bool compares = true;  // set while no refresh runs

 private:
    std::unique_ptr<MemoryDisk> disk_;
    std::unique_ptr<InsideVolume> volume_;
    Image* memory_ = nullptr;
    std::unique_ptr<Replica> replica_;
    std::unique_ptr<HostReplica> wanted_;
};

inline milliseconds some_time() {
    return milliseconds(3000 * test_load());
}

template <class Image>
class ReplicaTest : public testing::Test {
 protected:
    void SetUp() override {
        if (!Image::is_there()) GTEST_SKIP() << "there is no GPU";
    }
};
TYPED_TEST_SUITE_P(ReplicaTest);

/// Every kind of operation, one after the other: a change without a mark is a difference.
TYPED_TEST_P(ReplicaTest, equalsTheVolumeAfterRandomOperations) {
    const Seed seed;
    ReplicatedVolume<TypeParam> volume(256 * mib);
    Random random(seed.part(1));
    RandomPlan plan;
    plan.entries_max = 1500;
    RandomOperations driver(*volume, seed.value(), plan);
    const auto end = steady_clock::now() + 2 * some_time();
    while (steady_clock::now() < end || volume.replica().version() <= 10) {
        ASSERT_TRUE(driver.run(1 + random.below(40)));
        ASSERT_TRUE(volume.expect_equal());
    }
    EXPECT_EQ(volume.replica().figures().complete_loads, 1u);
    driver.let_all_go();
    EXPECT_TRUE(volume.expect_equal());
}

/// Marks of a block that is dirty already, and of changes that make none dirty, one by one.
TYPED_TEST_P(ReplicaTest, seesEachChangeByItself) {
    ReplicatedVolume<TypeParam> volume(64 * mib);
    const Handle root = volume->root();
    const auto unchanged = [&] {
        const u64 before = volume.replica().figures().blocks_sent;
        EXPECT_EQ(volume.replica().refresh(), Errc::ok);
        return volume.replica().figures().blocks_sent == before;
    };
    CreateOptions held;
    held.open = true;
    held.hold = Hold::yes;
    const auto file = volume->create(anybody, root, "file", held);
    ASSERT_TRUE(file);
    ASSERT_TRUE(volume.expect_equal());
    EXPECT_TRUE(unchanged());
    EXPECT_EQ(volume->open_file(file->handle), Errc::ok);
    ASSERT_TRUE(volume.expect_equal()) << "opened once more";
    EXPECT_EQ(volume->unlink(anybody, root, "file"), Errc::ok);
    ASSERT_TRUE(volume.expect_equal()) << "unlinked while it is open";
    EXPECT_EQ(volume->release(file->handle), Errc::ok);
    ASSERT_TRUE(volume.expect_equal()) << "released once";
    EXPECT_EQ(volume->release(file->handle), Errc::ok);
    ASSERT_TRUE(volume.expect_equal()) << "released";
    volume->forget(file->handle, 1);
    ASSERT_TRUE(volume.expect_equal()) << "forgotten";

    // A tree of which a bulk step leaves something: an open file, a file with another name.
    const Handle tree = make_directory(*volume, root, "tree");
    const Handle below = make_directory(*volume, tree, "below");
    make_directory(*volume, below, "empty");
    const Handle opened = make_directory(*volume, below, "opened");
    EXPECT_EQ(volume->open_file(opened), Errc::ok);
    make_directory(*volume, below, "held");
    for (u32 i = 0; i < 300; ++i)
        ASSERT_TRUE(volume->create(anybody, below, "f" + std::to_string(i), {}));
    const auto twice = volume->create(anybody, below, "twice", {});
    ASSERT_TRUE(volume->link(anybody, twice->handle, root, "other"));
    const auto open = volume->create(anybody, below, "open", held);
    const auto kept = volume->lookup(anybody, below, "held", Hold::yes);
    ASSERT_TRUE(kept);
    EXPECT_EQ(volume->sync(), Errc::ok);
    ASSERT_TRUE(volume.expect_equal());
    Removal removal;
    EXPECT_EQ(volume->remove_tree(anybody, root, "tree", removal), Errc::ok);
    ASSERT_TRUE(volume.expect_equal()) << "removed";
    EXPECT_EQ(volume->sync(), Errc::ok);
    ASSERT_TRUE(volume.expect_equal()) << "published";
    EXPECT_EQ(volume->release(open->handle), Errc::ok);
    EXPECT_EQ(volume->release(opened), Errc::ok);
    volume->forget(kept->handle, 1);
    ASSERT_TRUE(volume.expect_equal()) << "all released";
}

/// A bulk step marks blocks that are dirty already, too.
TYPED_TEST_P(ReplicaTest, seesWhatABulkStepChangesInDirtyBlocks) {
    ReplicatedVolume<TypeParam> volume(256 * mib);
    const Handle root = volume->root();
    u32 padded = 0;
    const auto pad = [&](u32 count) {
        for (u32 i = 0; i < count; ++i)
            EXPECT_TRUE(volume->create(anybody, root, "pad" + std::to_string(padded++), {}));
    };
    // The leaf of the orphan directory is there before and after the step.
    CreateOptions held;
    held.open = true;
    const auto orphan = volume->create(anybody, root, "orphan", held);
    ASSERT_TRUE(orphan);
    EXPECT_EQ(volume->unlink(anybody, root, "orphan"), Errc::ok);
    // The bitmap of its own inode is not that of the files.
    const Handle tree = make_directory(*volume, root, "tree");
    pad(format::inodes_per_frame);
    EXPECT_EQ(volume->sync(), Errc::ok);
    const auto twice = volume->create(anybody, tree, "twice", {});
    ASSERT_TRUE(twice && volume->link(anybody, twice->handle, root, "other"));
    EXPECT_NE(twice->handle.inode / format::inodes_per_frame,
              tree.inode / format::inodes_per_frame);
    pad(format::inodes_per_block);  // its block has no inode that is freed
    for (u32 i = 0; i < 300; ++i)
        ASSERT_TRUE(volume->create(anybody, tree, "f" + std::to_string(i), {}));
    ASSERT_TRUE(volume.expect_equal());
    Removal removal;
    EXPECT_EQ(volume->remove_tree(anybody, root, "tree", removal), Errc::ok);
    ASSERT_TRUE(volume.expect_equal());
    EXPECT_EQ(volume->release(orphan->handle), Errc::ok);
}

/// What a bulk step shares with the steps of its workers, for one of them.
struct LoneStep {
    ops::LaneRules rules;
    WARREN_HD bool want(u64 /*place*/) const { return true; }
    WARREN_HD void pause() const {}
};

/// The bit that a directory gets no more names is in memory alone.
TYPED_TEST_P(ReplicaTest, seesThatADirectoryIsBeingRemoved) {
    ReplicatedVolume<TypeParam> volume(64 * mib);
    const Handle begun = make_directory(*volume, volume->root(), "begun");
    const Handle claimed = make_directory(*volume, volume->root(), "claimed");
    ASSERT_TRUE(volume->create(anybody, claimed, "file", {}));
    ASSERT_TRUE(volume.expect_equal());
    VolumeImplementation& inside = volume.inside();
    EXPECT_EQ(inside.ask<ops::Verb::start_dying>(command_on(begun)), Errc::ok);
    ASSERT_TRUE(volume.expect_equal());

    // Claimed by a bulk step, and given back as it was.
    const core::Store& store = inside.store();
    CpuOperation step_entry(ThreadTeam{}, store);
    ASSERT_EQ(step_entry.begin_apply({0, nullptr}), Errc::ok);
    LoneStep step;
    const ops::Claim claim = ops::claim_directory<1>(store, step, claimed.inode);
    EXPECT_EQ(claim.code, Errc::ok);
    ops::restore_directory(store, step, claimed.inode,
                           ops::ClaimedRoot::of(0, claim.count, claim.height), claim.count);
    step_entry.end_apply();
    core::finish(step_entry);
    ASSERT_TRUE(volume.expect_equal());
}

/// Frames that become free and are taken again.
TYPED_TEST_P(ReplicaTest, followsFramesThatAreReused) {
    const Seed seed;
    ReplicatedVolume<TypeParam> volume(64 * mib);
    Random random(seed.value());
    for (u32 round = 0; round < 2; ++round) {
        const Handle many = make_directory(*volume, volume->root(), "many");
        std::vector<std::string> names(9'000 + random.below(1'000));
        std::vector<Creation> creations;
        for (u64 i = 0; i < names.size(); ++i) {
            names[i] = "some rather long name of a file " + std::to_string(i);
            creations.push_back({many, names[i], {}});
        }
        std::vector<Result<Attributes>> made(names.size(), Errc::io);
        volume->create_many(anybody, creations, made);
        ASSERT_TRUE(volume.expect_equal());
        Removal removal;
        EXPECT_EQ(volume->remove_tree(anybody, volume->root(), "many", removal), Errc::ok);
        ASSERT_TRUE(volume.expect_equal());
        for (u32 i = 0; i < 2; ++i) {
            EXPECT_EQ(volume.inside().commit_and_free(true), Errc::ok);
            ASSERT_TRUE(volume.expect_equal()) << "committed in round " << round;
        }
    }
}

/// An inode frame becomes free, gives its memory back and is used for inodes again: a block of it
/// that is not in memory yet must not show its old inodes.
TYPED_TEST_P(ReplicaTest, dropsBlocksThatLeaveMemory) {
    ReplicatedVolume<TypeParam> volume(64 * mib);
    VolumeImplementation& inside = volume.inside();
    const Handle root = volume->root();
    const auto fill = [&](Handle in, u32 count) {
        for (u32 i = 0; i < count; ++i)
            EXPECT_TRUE(volume->create(anybody, in, "f" + std::to_string(i), {}));
    };
    const Handle tree = make_directory(*volume, root, "tree");
    fill(tree, format::inodes_per_frame + 2000);
    const Handle gone = make_directory(*volume, tree, "gone");
    ASSERT_TRUE(volume.expect_equal());
    Removal removal;
    EXPECT_EQ(volume->remove_tree(anybody, root, "tree", removal), Errc::ok);
    EXPECT_EQ(inside.commit_and_free(true), Errc::ok);
    ASSERT_TRUE(volume.expect_equal());
    const u64 frame = gone.inode / format::inodes_per_frame;
    EXPECT_EQ(core::kind_of(inside.store(), frame), format::FrameKind::free);
    give_back_free_frames(inside.store());
    fill(root, format::inodes_per_frame);
    EXPECT_EQ(core::kind_of(inside.store(), frame), format::FrameKind::inodes);
    ASSERT_TRUE(volume.expect_equal());
    CpuEngine image(volume.memory().look());
    ops::Command command;
    command.verb = ops::Verb::get_attributes;
    command.handle = gone;
    ops::Reply reply;
    image.attempt(command, reply);
    EXPECT_EQ(reply.code, Errc::need_block);
}

/// Blocks that come from the disk after the replica was loaded.
TYPED_TEST_P(ReplicaTest, takesBlocksThatAreLoadedLater) {
    ReplicatedVolume<TypeParam> volume(64 * mib);
    const Handle some = make_directory(*volume, volume->root(), "some");
    for (u32 i = 0; i < 500; ++i)
        ASSERT_TRUE(volume->create(anybody, some, "f" + std::to_string(i), {}));
    EXPECT_EQ(volume->close(), Errc::ok);
    volume.open();
    ASSERT_TRUE(volume.expect_equal());
    const auto first = volume->lookup(anybody, volume->root(), "some");
    ASSERT_TRUE(first);
    ASSERT_TRUE(volume.expect_equal());
    EXPECT_EQ(list_names(*volume, first->handle).size(), 500u);
    ASSERT_TRUE(volume->lookup(anybody, first->handle, "f77"));
    ASSERT_TRUE(volume.expect_equal());
}

/// Whatever changes while there is no image: the next one has it, and is sent once.
TYPED_TEST_P(ReplicaTest, equalsTheVolumeAfterReleases) {
    const Seed seed;
    ReplicatedVolume<TypeParam> volume(256 * mib);
    RandomOperations driver(*volume, seed.value());
    ASSERT_TRUE(volume.expect_equal());
    // The blocks of an empty volume, which every later state has, too.
    const u64 least = volume.replica().figures().blocks_sent;
    EXPECT_GT(least, 0u);
    constexpr u64 releases = 8;
    for (u64 i = 0; i < releases; ++i) {
        ASSERT_TRUE(driver.run(60));
        ASSERT_TRUE(volume.expect_equal());
        EXPECT_EQ(volume.replica().marked(), 0u);
        volume.replica().release();
        EXPECT_TRUE(volume.replica().is_released());
        const auto refuse = [](const core::Store&, std::shared_lock<FairLock>&) {
            ADD_FAILURE() << "there is no image";
            return Errc::ok;
        };
        EXPECT_EQ(volume.replica().read(refuse, false), Errc::not_supported);
        ASSERT_TRUE(driver.run(60));
        if (i % 2 == 0) volume.replica().release();
        const u64 marked = volume.replica().marked();
        const u64 sent = volume.replica().figures().blocks_sent;
        EXPECT_GE(marked, least);
        ASSERT_TRUE(volume.expect_equal());
        EXPECT_FALSE(volume.replica().is_released());
        EXPECT_EQ(volume.replica().figures().blocks_sent - sent, marked);
    }
    EXPECT_EQ(volume.replica().figures().complete_loads, 1 + releases);
    driver.let_all_go();
    EXPECT_TRUE(volume.expect_equal());
}

/// Random operations by many threads, commits beside them: each version is one moment.
TYPED_TEST_P(ReplicaTest, equalsTheVolumeBesideWriters) {
    const Seed seed;
    ReplicatedVolume<TypeParam> volume(512 * mib);
    constexpr u32 writers = 3;
    std::vector<std::unique_ptr<RandomOperations>> drivers;
    for (u32 i = 0; i < writers; ++i) {
        RandomPlan plan;
        plan.entries_max = 300;
        plan.root = make_directory(*volume, volume->root(), "own" + std::to_string(i), 040755);
        drivers.push_back(std::make_unique<RandomOperations>(*volume, seed.part(i), plan));
    }
    std::atomic<bool> is_over{false};
    std::vector<std::thread> threads;
    for (u32 i = 0; i < writers; ++i) {
        threads.emplace_back([&, i] {
            while (!is_over.load(std::memory_order_relaxed) && drivers[i]->step()) {
            }
        });
    }
    const auto end = steady_clock::now() + 2 * some_time();
    while ((steady_clock::now() < end || volume.replica().version() <= 5) &&
           volume.expect_equal(true)) {
    }
    is_over.store(true, std::memory_order_relaxed);
    for (std::thread& thread : threads)
        thread.join();
    for (auto& driver : drivers)
        driver->let_all_go();
    EXPECT_TRUE(volume.expect_equal());
}

REGISTER_TYPED_TEST_SUITE_P(ReplicaTest, equalsTheVolumeAfterRandomOperations,
                            seesEachChangeByItself, seesWhatABulkStepChangesInDirtyBlocks,
                            seesThatADirectoryIsBeingRemoved, followsFramesThatAreReused,
                            dropsBlocksThatLeaveMemory, takesBlocksThatAreLoadedLater,
                            equalsTheVolumeAfterReleases, equalsTheVolumeBesideWriters);

}  // namespace warren
