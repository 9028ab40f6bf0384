// SPDX-License-Identifier: Apache-2.0
// A replica in the host's memory beside the CPU engine: after each refresh its image is the state
// of one moment, bit by bit, whatever operations run meanwhile; and readers of it see every change
// that ended before they began.
#include "fs/engine/replica/replica.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <thread>

#include "base/random.hpp"
#include "fs/bulk/remove_tree/claimed_root.hpp"
#include "tests/fs/bulk/output_scan.hpp"
#include "tests/support/host_replica.hpp"
#include "tests/support/random_operations.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// A volume with a replica, and at each moment of a version a second image, taken block by block
/// without regard to marks.
class ReplicatedVolume {
 public:
    explicit ReplicatedVolume(u64 size_bytes) : disk_(make_memory_disk(size_bytes)) { open(); }

    /// Closes the volume and opens it again, with a new replica.
    void open() {
        replica_.reset();
        volume_.reset();
        volume_ = std::make_unique<InsideVolume>(*disk_);
        ASSERT_EQ(inside().mark_changes(), Errc::ok);
        auto memory = std::make_unique<HostReplica>(inside().store());
        memory_ = memory.get();
        replica_ = std::make_unique<Replica>(
            inside().store(), std::move(memory), [this](const std::function<void()>& action) {
                inside().committer().freeze([&] {
                    action();
                    if (!compares) return;
                    wanted_ = std::make_unique<HostReplica>(inside().store());
                    wanted_->take_all();
                });
            });
    }

    Volume& operator*() { return **volume_; }
    Volume* operator->() { return &**volume_; }
    InsideVolume& outer() { return *volume_; }
    VolumeImplementation& inside() { return volume_->inside(); }
    Replica& replica() { return *replica_; }
    HostReplica& memory() { return *memory_; }

    /// A new version must equal the volume. False if the test has failed.
    bool expect_equal(bool beside_others = false) {
        EXPECT_EQ(replica_->refresh(), Errc::ok);
        const std::string found = difference(wanted_->image(), memory_->image(), beside_others);
        EXPECT_EQ(found, "") << "in version " << replica_->version();
        return found.empty();
    }

    bool compares = true;  // set while no refresh runs

 private:
    std::unique_ptr<MemoryDisk> disk_;
    std::unique_ptr<InsideVolume> volume_;
    HostReplica* memory_ = nullptr;
    std::unique_ptr<Replica> replica_;
    std::unique_ptr<HostReplica> wanted_;
};

OutputScan scan_of(const core::Store& image) {
    // All that was in use was resident, so nothing is missing.
    return OutputScan(image, [](u64) { return Errc::io; });
}

milliseconds some_time() {
    return milliseconds(3000 * test_load());
}

/// Every kind of operation, one after the other: a change without a mark is a difference.
TEST(Replica, equalsTheVolumeAfterRandomOperations) {
    const Seed seed;
    ReplicatedVolume volume(256 * mib);
    Random random(seed.part(1));
    RandomPlan plan;
    plan.entries_max = 1500;
    RandomOperations driver(*volume, seed.value(), plan);
    const auto end = steady_clock::now() + 2 * some_time();
    while (steady_clock::now() < end) {
        ASSERT_TRUE(driver.run(1 + random.below(40)));
        ASSERT_TRUE(volume.expect_equal());
    }
    EXPECT_GT(volume.replica().version(), 10u);
    EXPECT_EQ(volume.replica().figures().complete_loads, 1u);
    driver.let_all_go();
    EXPECT_TRUE(volume.expect_equal());
}

/// Marks of a block that is dirty already, and of changes that make none dirty, one by one.
TEST(Replica, seesEachChangeByItself) {
    ReplicatedVolume volume(64 * mib);
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
TEST(Replica, seesWhatABulkStepChangesInDirtyBlocks) {
    ReplicatedVolume volume(256 * mib);
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
    bool want(u64 /*place*/) const { return true; }
    void pause() const {}
};

/// The bit that a directory gets no more names is in memory alone.
TEST(Replica, seesThatADirectoryIsBeingRemoved) {
    ReplicatedVolume volume(64 * mib);
    const Handle begun = make_directory(*volume, volume->root(), "begun");
    const Handle claimed = make_directory(*volume, volume->root(), "claimed");
    ASSERT_TRUE(volume->create(anybody, claimed, "file", {}));
    ASSERT_TRUE(volume.expect_equal());
    ops::Command command;
    command.from = begun.inode;
    EXPECT_EQ(volume.inside().ask<ops::Verb::start_dying>(command), Errc::ok);
    ASSERT_TRUE(volume.expect_equal());

    // Claimed by a bulk step, and given back as it was.
    const core::Store& store = volume.inside().store();
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
TEST(Replica, followsFramesThatAreReused) {
    const Seed seed;
    ReplicatedVolume volume(64 * mib);
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

/// Blocks that come from the disk after the replica was loaded.
TEST(Replica, takesBlocksThatAreLoadedLater) {
    ReplicatedVolume volume(64 * mib);
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

/// What readers of the image find, against a walk by commands.
TEST(Replica, answersAsTheVolumeDoes) {
    const Seed seed;
    ReplicatedVolume volume(64 * mib);
    build_random(*volume, seed.value(), 60);
    const Errc read = volume.replica().read([&](const core::Store& image) {
        OutputScan scan = scan_of(image);
        expect_same_answers(scan, volume.outer());
        return Errc::ok;
    });
    EXPECT_EQ(read, Errc::ok);
}

/// A reader that finds nothing marked makes no version; a change of its own it always sees.
TEST(Replica, readersJoinAVersionOrWaitForTheNext) {
    ReplicatedVolume volume(64 * mib);
    Replica& replica = volume.replica();
    const auto counted = [&] {
        u64 inodes = 0;
        const Errc code = replica.read([&](const core::Store& image) {
            inodes = relaxed_load(image.state->inodes_used);
            return Errc::ok;
        });
        EXPECT_EQ(code, Errc::ok);
        return inodes;
    };
    const u64 before = counted();
    EXPECT_EQ(replica.version(), 1u);
    EXPECT_EQ(counted(), before);
    EXPECT_EQ(replica.version(), 1u);
    make_directory(*volume, volume->root(), "one");
    EXPECT_EQ(counted(), before + 1);
    EXPECT_EQ(replica.version(), 2u);
    EXPECT_EQ(replica.read([](const core::Store&) { return Errc::canceled; }), Errc::canceled);
}

/// After an error of the memory nobody reads the image until all of it was sent again.
TEST(Replica, isLoadedAgainAfterAFailure) {
    ReplicatedVolume volume(64 * mib);
    ASSERT_TRUE(volume.expect_equal());
    for (u32 fails_at = 0; fails_at < 4; ++fails_at) {
        const Handle some = make_directory(*volume, volume->root(), std::to_string(fails_at));
        for (u32 i = 0; i < 2000; ++i)
            ASSERT_TRUE(volume->create(anybody, some, "f" + std::to_string(i), {}));
        const u64 loads = volume.replica().figures().complete_loads;
        volume.memory().fail_after(0);
        bool was_called = false;
        const auto reader = [&](const core::Store&) {
            was_called = true;
            return Errc::ok;
        };
        EXPECT_EQ(volume.replica().read(reader), Errc::io);
        volume.memory().fail_after(fails_at);
        while (volume.replica().read(reader) == Errc::io)
            EXPECT_FALSE(was_called);
        EXPECT_TRUE(was_called);
        EXPECT_GT(volume.replica().figures().complete_loads, loads);
        ASSERT_TRUE(volume.expect_equal());
    }
}

/// Random operations by many threads, commits beside them: each version is one moment.
TEST(ReplicaBesideWriters, equalsTheVolumeAtOneMoment) {
    const Seed seed;
    ReplicatedVolume volume(512 * mib);
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
    while (steady_clock::now() < end && volume.expect_equal(true)) {
    }
    is_over.store(true, std::memory_order_relaxed);
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_GT(volume.replica().version(), 5u);
    for (auto& driver : drivers)
        driver->let_all_go();
    EXPECT_TRUE(volume.expect_equal());
}

/// A thread's operations in order, so that what a moment shows of them says how many were done:
/// number n makes file n, removes file n - 3 or moves a token to another directory.
class NumberedChanges {
 public:
    static constexpr u64 directories = 4;

    NumberedChanges(Volume& volume, const std::vector<Handle>& in, u32 thread)
        : volume_(volume), in_(in), thread_(std::to_string(thread)) {
        EXPECT_TRUE(volume_.create(anybody, in_[0], "token" + thread_, {}));
    }

    void step() {
        const u64 n = done_.load(std::memory_order_relaxed);
        const u64 turn = n / 3;
        if (n % 3 == 0) {
            EXPECT_TRUE(volume_.create(anybody, in_[turn % directories], file(turn), {}));
        } else if (n % 3 == 1 && turn >= 3) {
            const u64 old = turn - 3;
            EXPECT_EQ(volume_.unlink(anybody, in_[old % directories], file(old)), Errc::ok);
        } else if (n % 3 == 2) {
            EXPECT_EQ(volume_.rename(anybody, in_[turn % directories], "token" + thread_,
                                     in_[(turn + 1) % directories], "token" + thread_),
                      Errc::ok);
        }
        done_.store(n + 1, std::memory_order_release);
    }
    u64 done() const { return done_.load(std::memory_order_acquire); }

    /// Whether `names` (with the directory of each) is what n changes leave.
    bool leaves(u64 n, const std::multimap<std::string, u64>& names) const {
        const u64 made = (n + 2) / 3;
        const u64 removals = (n + 1) / 3;
        const u64 removed = removals > 3 ? removals - 3 : 0;
        u64 count = 0;
        for (const auto& [name, in] : names)
            count += name.starts_with("f" + thread_ + "_") ? 1 : 0;
        if (count != made - removed) return false;
        for (u64 i = removed; i < made; ++i)
            if (!is_only_in(names, file(i), in_[i % directories])) return false;
        return is_only_in(names, "token" + thread_, in_[n / 3 % directories]);
    }

 private:
    std::string file(u64 turn) const { return "f" + thread_ + "_" + std::to_string(turn); }
    static bool is_only_in(const std::multimap<std::string, u64>& names, const std::string& name,
                           Handle in) {
        return names.count(name) == 1 && names.find(name)->second == in.inode;
    }

    Volume& volume_;
    const std::vector<Handle>& in_;
    const std::string thread_;
    std::atomic<u64> done_{0};
};

TEST(ReplicaBesideWriters, readersFindTheStateOfOneMoment) {
    ReplicatedVolume volume(256 * mib);
    volume.compares = false;
    std::vector<Handle> in;
    for (u64 i = 0; i < NumberedChanges::directories; ++i)
        in.push_back(make_directory(*volume, volume->root(), "d" + std::to_string(i)));
    constexpr u32 writers = 3;
    std::vector<std::unique_ptr<NumberedChanges>> changes;
    for (u32 i = 0; i < writers; ++i)
        changes.push_back(std::make_unique<NumberedChanges>(*volume, in, i));
    std::atomic<bool> is_over{false};
    std::vector<std::thread> threads;
    for (u32 i = 0; i < writers; ++i) {
        threads.emplace_back([&, i] {
            while (!is_over.load(std::memory_order_relaxed))
                changes[i]->step();
        });
    }
    const Handle root = volume->root();
    u64 scans = 0;
    const auto end = steady_clock::now() + some_time();
    while ((scans < 3 || steady_clock::now() < end) && !testing::Test::HasFailure()) {
        u64 before[writers];
        for (u32 i = 0; i < writers; ++i)
            before[i] = changes[i]->done();
        std::multimap<std::string, u64> names;
        const Errc read = volume.replica().read([&](const core::Store& image) {
            OutputScan scan = scan_of(image);
            auto plan = bulk::plan_scan(ScanPurpose::visit, credentials_of(anybody));
            EXPECT_EQ(ops::set_filter(plan.files, {}), Errc::ok);
            const std::function<bool(const Scanned&)> visit = [&](const Scanned& found) {
                names.emplace(found.name, found.directory.inode);
                return true;
            };
            ScanCall call{plan, root, &visit};
            call.for_each = for_each_in_turn;
            bulk::ScanVisits visits(call);
            return scan.scan(plan, root, [&](const auto& out) { visits.take(out); });
        });
        EXPECT_EQ(read, Errc::ok);
        u64 after[writers];
        for (u32 i = 0; i < writers; ++i)
            after[i] = changes[i]->done();
        for (u32 i = 0; i < writers; ++i) {
            bool is_a_moment = false;
            // A change may have been applied and not counted yet.
            for (u64 n = before[i]; n <= after[i] + 1 && !is_a_moment; ++n)
                is_a_moment = changes[i]->leaves(n, names);
            EXPECT_TRUE(is_a_moment) << "thread " << i << " after " << before[i] << " changes";
        }
        ++scans;
    }
    is_over.store(true, std::memory_order_relaxed);
    for (std::thread& thread : threads)
        thread.join();
}

}  // namespace
}  // namespace warren
