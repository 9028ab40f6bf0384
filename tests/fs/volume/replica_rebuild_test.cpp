// SPDX-License-Identifier: Apache-2.0
// Directories that a replica packs in its image: the same names under the same keys in as few
// blocks as they need, and an image that equals the volume. What fails on the replica the CPU does.
// The replica is in the host's memory here.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/fs/bulk/rebuild_cases.hpp"
#include "tests/fs/volume/failing_runs.hpp"
#include "tests/fs/volume/image_packing.hpp"
#include "tests/fs/volume/listing_volume.hpp"
#include "tests/support/assisted_volume.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/sanitized.hpp"

namespace warren::replica_rebuild_test {
namespace {

const RebuildCase some{"some", 2000, 2, 12};

TEST(ReplicaRebuild, PacksAllKinds) {
    expect_rebuilds(
        [](InsideVolume& volume) { return std::make_unique<ImagePacking<HostReplicaOf>>(volume); });
}

/// What was packed in the image is not sent again.
TEST(ReplicaRebuild, LeavesAnImageThatEqualsTheVolume) {
    for (const RebuildCase& which : rebuild_cases()) {
        if (which.names < 2000) continue;
        SCOPED_TRACE(which.label);
        ListingVolume volume(512 * mib);
        const Handle directory = make_case(*volume, which);
        volume.expect_equal_image();
        const auto names = list_names(*volume, directory);
        for (u32 round = 0; round < 2; ++round) {
            EXPECT_EQ(pack(*volume, directory), Errc::ok);
            expect_equal_unsent(volume.volume, volume.replica);
        }
        EXPECT_EQ(volume.replica.reader->rebuilds.runs, 2u);
        EXPECT_TRUE(list_names(*volume, directory) == names);
        // Blocks that were freed are used again once they were committed.
        EXPECT_EQ(volume->sync(), Errc::ok);
        const RebuildCase more{"more", 3000, 1, 12};
        make_case(*volume, more);
        volume.expect_equal_image();
        volume.close_and_check();
    }
}

TEST(ReplicaRebuild, PacksMoreThanOneCommitHolds) {
    ListingVolume volume(32 * mib);
    const Handle directory = make_case(*volume, {"large", 40'000, 2, 20});
    const auto names = list_names(*volume, directory);
    EXPECT_EQ(pack(*volume, directory), Errc::ok);
    EXPECT_GT(volume.replica.reader->rebuilds.runs, 2u);
    EXPECT_EQ(volume.left(), 0u);
    EXPECT_LE(volume->attributes(directory)->blocks, packed_blocks(names));
    EXPECT_TRUE(list_names(*volume, directory) == names);
    volume.expect_equal_image();
    volume.close_and_check();
}

TEST(ReplicaRebuild, AsksForPermission) {
    ListingVolume volume;
    const Handle directory = make_directory(*volume, volume->root(), "some", 040755);
    for (u32 i = 0; i < 50; ++i)
        make_file(*volume, directory, "f" + std::to_string(i));
    EXPECT_EQ(pack(*volume, directory, {.user = 7, .group = 7}), Errc::access);
    EXPECT_EQ(volume.left(), 0u);
    EXPECT_EQ(pack(*volume, directory), Errc::ok);
    EXPECT_EQ(volume.left(), 0u);
    EXPECT_EQ(volume.replica.reader->rebuilds.runs, 2u);
    const Handle file = make_file(*volume, volume->root(), "file");
    EXPECT_EQ(pack(*volume, file), Errc::not_directory);
    Removal removal;
    EXPECT_EQ(volume->remove_tree(anybody, volume->root(), "some", removal), Errc::ok);
    EXPECT_EQ(pack(*volume, directory), Errc::stale);
    volume.close_and_check();
}

/// Whatever fails on the replica: the CPU packs the directory.
TEST(ReplicaRebuild, IsLeftToTheCpuIfTheReplicaFails) {
    for (const FailingRun& one : failing_runs()) {
        SCOPED_TRACE(testing::Message() << one);
        ListingVolume volume;
        const Handle directory = make_case(*volume, some);
        const auto names = list_names(*volume, directory);
        if (one.at != FailingRun::At::send) volume.expect_equal_image();
        let_fail(volume, volume.replica.reader->rebuilds, one);
        EXPECT_EQ(pack(*volume, directory), Errc::ok);
        EXPECT_EQ(volume.left(), 1u);
        EXPECT_EQ(volume.replica.reports.size(), one.reports);
        EXPECT_EQ(volume.replica.queries->statistics().is_on, one.reports == 0);
        EXPECT_LE(volume->attributes(directory)->blocks, packed_blocks(names) + 1);
        EXPECT_TRUE(list_names(*volume, directory) == names);
        if (one.reports == 0) volume.expect_equal_image();
        volume.close_and_check();
    }
}

TEST(ReplicaRebuild, SurvivesFailedAllocations) {
    u64 nth = 1;
    for (bool has_failed = true; has_failed && !HasFailure(); nth += 1 + nth / 8) {
        ListingVolume volume;
        const Handle directory = make_case(*volume, some);
        const auto names = list_names(*volume, directory);
        {
            const FailingAllocation failing(nth);
            const Errc code = pack(*volume, directory);
            EXPECT_TRUE(code == Errc::ok || code == Errc::no_memory);
            has_failed = failing.has_failed();
        }
        EXPECT_TRUE(list_names(*volume, directory) == names);
        volume.close_and_check();
    }
    EXPECT_GT(nth, 3u);
}

/// Few names are not worth the question; of many, the sides' times decide.
TEST(ReplicaRebuild, IsOfManyNames) {
    AssistedVolume volume(0);
    for (const u32 names : {4095u, 4096u}) {
        const Handle directory = make_case(*volume, {std::to_string(names), names, 1, 12});
        EXPECT_EQ(pack(*volume, directory), Errc::ok);
        const ReplicaStatistics counts = volume.replica.queries->statistics();
        EXPECT_EQ(counts.by_cpu + counts.by_replica, names == 4096 ? 1u : 0u);
    }
}

/// Threads that make, look up and remove names of the directory meanwhile.
TEST(ReplicaRebuild, RunsBesideOthers) {
    ListingVolume volume(256 * mib);
    const Handle directory = make_case(*volume, {"some", 3000, 1, 12});
    const auto names = list_names(*volume, directory);
    std::atomic<bool> is_over{false};
    std::vector<std::thread> threads;
    for (u32 t = 0; t < 2; ++t) {
        threads.emplace_back([&, t] {
            for (u64 i = 0; !is_over.load(std::memory_order_relaxed); ++i) {
                const std::string name = std::to_string(t) + '-' + std::to_string(i % 3000);
                if (i / 3000 % 2 == 0) {
                    ASSERT_TRUE(volume->create(anybody, directory, name, {}));
                } else {
                    ASSERT_EQ(volume->unlink(anybody, directory, name), Errc::ok);
                }
            }
        });
    }
    threads.emplace_back([&] {
        while (!is_over.load(std::memory_order_relaxed)) {
            for (const auto& [name, inode] : names) {
                const auto found = volume->lookup(anybody, directory, name);
                ASSERT_TRUE(found && found->handle.inode == inode);
            }
        }
    });
    const u64 rounds = (is_sanitized ? 20 : 100) * test_load();
    for (u64 i = 0; i < rounds && !HasFailure(); ++i) {
        EXPECT_EQ(pack(*volume, directory), Errc::ok);
        if (i % 8 == 0) {
            EXPECT_EQ(volume->sync(), Errc::ok);
        }
    }
    is_over.store(true, std::memory_order_relaxed);
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_GE(volume.replica.reader->rebuilds.runs, rounds);
    EXPECT_EQ(volume.left(), 0u);
    volume.expect_equal_image();
    volume.close_and_check();
}

/// The power is cut after each write: all names are there, and the tree is the old or the new one.
TEST(ReplicaRebuild, IsWholeOrNotBegunIfThePowerIsCut) {
    ListingVolume volume;
    const Handle directory = make_case(*volume, some);
    const auto names = list_names(*volume, directory);
    EXPECT_EQ(volume->sync(), Errc::ok);
    const u64 before = volume->attributes(directory)->blocks;
    volume.disk->start_recording();
    EXPECT_EQ(pack(*volume, directory), Errc::ok);
    const u64 after = volume->attributes(directory)->blocks;
    EXPECT_LT(after, before);
    EXPECT_EQ(volume->close(), Errc::ok);
    EXPECT_EQ(volume.replica.reader->rebuilds.runs, 1u);
    volume.disk->stop_recording();
    std::set<u64> blocks;
    for (u64 event = 0; event <= volume.disk->event_count() && !HasFailure(); ++event) {
        const auto image = volume.disk->image_after(event);
        expect_clean(*image);
        const auto opened = open_on(*image);
        ASSERT_NE(opened, nullptr);
        EXPECT_TRUE(list_names(*opened, directory) == names);
        blocks.insert(opened->attributes(directory)->blocks);
        EXPECT_EQ(opened->close(), Errc::ok);
    }
    EXPECT_EQ(blocks, (std::set<u64>{before, after}));
}

}  // namespace
}  // namespace warren::replica_rebuild_test
