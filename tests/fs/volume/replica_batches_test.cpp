// SPDX-License-Identifier: Apache-2.0
// Changes of many files that a replica carries out in its image and the volume adopts: the same
// answers, the same tree, the same space as on the CPU alone, and an image that equals the volume.
// What fails on the replica the CPU does. The replica is in the host's memory here.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/fs/volume/batch_names.hpp"
#include "tests/fs/volume/failing_runs.hpp"
#include "tests/fs/volume/listing_volume.hpp"
#include "tests/fs/volume/replicated_many.hpp"
#include "tests/support/assisted_volume.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/random_operations.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/seed.hpp"

namespace warren::replica_batches_test {
namespace {

using HostMany = ReplicatedMany<HostReplicaOf>;

TEST(ReplicaBatches, DoWhatTheirItemsDoOneByOne) {
    expect_equal_twins<HostMany>(512 * mib, is_sanitized ? 30 : 60, 400, 600, 10);
}

TEST(ReplicaBatches, DoSoWithManyItems) {
    expect_equal_twins<HostMany>(512 * mib, is_sanitized ? 6 : 12, 100'000, 8'000, 2);
}

TEST(ReplicaBatches, DoSoWhenHashesCollide) {
    expect_equal_twins<HostMany>(512 * mib, 30, 300, 200, 0, u64{0xff} << 47 | u64{1});
}

TEST(ReplicaBatches, DoSoWithASmallJournal) {
    expect_equal_twins<HostMany>(64 * mib, 12, 20'000, 5'000);
}

/// What a batch has changed in the image is not sent again.
TEST(ReplicaBatches, LeaveAnImageThatEqualsTheVolume) {
    for (const u64 count : {1000u, 1001u}) {  // the stand-in edits leaves or rewrites directories
        ListingVolume volume(256 * mib);
        const Handle one = make_directory(*volume, volume->root(), "one");
        const Handle two = make_directory(*volume, volume->root(), "two");
        Names files(one, count);
        volume.expect_equal_image();
        const auto expect_equal = [&](const char* what) {
            SCOPED_TRACE(what);
            expect_equal_unsent(volume.volume, volume.replica);
        };
        EXPECT_EQ(files.create(*volume), count);
        expect_equal("created");
        files.move(*volume, two);
        expect_equal("moved");
        EXPECT_EQ(volume->sync(), Errc::ok);
        volume.expect_equal_image();
        EXPECT_TRUE(volume->lookup(anybody, two, "f3", Hold::yes));
        volume.expect_equal_image();
        files.remove(*volume);
        expect_equal("removed");
        EXPECT_EQ(volume->attributes(files.handles[3]).code(), Errc::stale);
        EXPECT_EQ(volume.replica.reader->batches.runs, 3u);
        // A number that the kernel knows is not used again.
        Names more(two, 2 * count, "more");
        EXPECT_EQ(more.create(*volume), 2 * count);
        expect_equal("created again");
        for (const Handle made : more.handles)
            EXPECT_NE(made.inode, files.handles[3].inode);
        volume->forget(files.handles[3], 1);
        volume.expect_equal_image();
        volume.close_and_check();
    }
}

/// A directory may have as many entries as the call has items, although each part of the call is
/// smaller, and the blocks of new inodes are neither loaded nor sent.
TEST(ReplicaBatches, RewriteADirectoryThatIsLargerThanAPart) {
    const u64 count = is_sanitized ? 20'000 : 670'000;
    ListingVolume volume(16 * gib);  // with a journal for each part
    Names files(make_directory(*volume, volume->root(), "one"), count);
    volume.expect_equal_image();
    const u64 loads = volume.volume.inside().loader().loads();
    const u64 sent = volume.replica.memory->blocks_sent();
    EXPECT_EQ(files.create(*volume), count);
    EXPECT_LE(volume.volume.inside().loader().loads(), loads + 4);
    // Of each new block group those of its bitmap and of its entry in the frame table.
    EXPECT_LE(volume.replica.memory->blocks_sent(), sent + 4 + 3 * (count / 8'000));
    expect_equal_unsent(volume.volume, volume.replica);
    volume.close_and_check();
}

/// While a run has inodes in blocks that only the image has, a handle that leads there waits.
TEST(ReplicaBatches, KeepStaleHandlesOutOfNewBlocks) {
    ListingVolume volume;
    volume.expect_equal_image();
    const u64 place = volume.volume.inside().store().root_inode * format::inode_size;
    const u64 frame = place / format::frame_size;
    const Handle stale{frame * format::inodes_per_frame + 100 * format::inodes_per_block, 12345};
    std::atomic<bool> has_begun{false};
    Errc found = Errc::ok;
    std::thread reader;
    volume.replica.reader->batches.after_run = [&] {
        if (reader.joinable()) return;
        reader = std::thread([&] {
            has_begun = true;
            found = volume->attributes(stale).code();
        });
        while (!has_begun)
            std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        EXPECT_FALSE(
            core::is_resident(volume.volume.inside().store(), stale.inode * format::inode_size));
    };
    Names files(volume->root(), 4000);
    EXPECT_EQ(files.create(*volume), 4000u);
    ASSERT_TRUE(reader.joinable());
    reader.join();
    EXPECT_EQ(found, Errc::stale);
    EXPECT_TRUE(std::ranges::any_of(files.handles,
                                    [&](const Handle& made) { return made.inode == stale.inode; }));
    volume.expect_equal_image();
    volume.close_and_check();
}

/// New inodes are copied while other changes are on their way, but none seems to exist yet.
TEST(ReplicaBatches, ShowNoInodeBeforeAllChangesHaveArrived) {
    ListingVolume volume;
    volume.expect_equal_image();
    const core::Store& store = volume.volume.inside().store();
    constexpr u64 inode_words = format::inode_size / 8;
    bool was_copied = false;
    volume.replica.memory->before_the_rest = [&](std::span<const u64> arrived) {
        // Other threads may be copying.
        for (u32 tries = 0; tries < 5000 && !was_copied; ++tries) {
            for (const u64 place : arrived) {
                if (core::is_resident(store, place)) continue;
                const auto& block = core::block_at<format::Block>(store, place);
                for (u64 w = 0; w < format::block_size / 8; ++w) {
                    const u64 word = relaxed_load(block.words[w]);
                    was_copied = was_copied || word != 0;
                    EXPECT_TRUE(w % inode_words != 0 || word == 0) << "an inode is there";
                }
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    };
    Names files(volume->root(), 8000);
    EXPECT_EQ(files.create(*volume), 8000u);
    EXPECT_TRUE(was_copied);
    volume.expect_equal_image();
    volume.close_and_check();
}

/// Where a block group held blocks of directories and then inodes, no inode is found that the batch
/// has not made.
TEST(ReplicaBatches, FindNoInodesInUsedBlockGroups) {
    ListingVolume volume(256 * mib);
    const core::Store& store = volume.volume.inside().store();
    const Handle large = make_directory(*volume, volume->root(), "large");
    Names old(large, 25'000, std::string(240, 'n'));
    EXPECT_EQ(old.create(*volume), old.names.size());
    volume.expect_equal_image();
    Removal removal;
    EXPECT_EQ(volume->remove_tree(anybody, volume->root(), "large", removal), Errc::ok);
    EXPECT_EQ(volume->sync(), Errc::ok);
    EXPECT_EQ(volume->sync(), Errc::ok);
    const auto count_frames = [&](format::FrameKind kind) {
        u64 count = 0;
        for (u64 frame = 0; frame < store.state->metadata_frames_end; ++frame) {
            const u64* const resident = store.resident + frame * (format::blocks_per_frame / 64);
            if (core::kind_of(store, frame) == kind && core::has_bit(resident)) ++count;
        }
        return count;
    };
    EXPECT_GT(count_frames(format::FrameKind::free), 8u);
    for (u32 i = 0; i < 13; ++i) {
        Names files(volume->root(), 8'000, "file" + std::to_string(i) + '.');
        EXPECT_EQ(files.create(*volume), files.names.size());
        u64 found = 0;
        const u64 end = store.state->metadata_frames_end * format::inodes_per_frame;
        for (u64 number = 0; number < end; ++number) {
            if (number % format::inodes_per_frame >= format::inodes_per_block &&
                core::is_inode_slot(store, number))
                found += core::inode_at(store, number).at->generation != 0 ? 1 : 0;
        }
        EXPECT_EQ(found, volume->statistics().inodes_used);
    }
    EXPECT_LT(count_frames(format::FrameKind::free), 4u);
    volume.close_and_check();
}

TEST(ReplicaBatches, AfterRandomOperationsEqualTheModel) {
    const Seed seed;
    ListingVolume volume(512 * mib);
    RandomPlan plan;
    plan.entries_max = 3000;
    plan.large_batches = true;
    RandomOperations driver(*volume, seed.value(), plan);
    const u64 rounds = (is_sanitized ? 12 : 60) * test_load();
    // Some seeds draw their first batch that is large enough for the replica late.
    const std::atomic<u64>& runs = volume.replica.reader->batches.runs;
    const u64 runs_min = rounds / 4 + 1;
    for (u64 i = 0; i < rounds || (runs < runs_min && i < 10 * rounds); ++i) {
        ASSERT_TRUE(driver.run(60));
        volume.expect_equal_image();
        ASSERT_FALSE(HasFailure());
    }
    EXPECT_TRUE(driver.compare());
    driver.let_all_go();
    EXPECT_GE(runs, runs_min);
    EXPECT_TRUE(volume.replica.reports.empty());
    volume.close_and_check();
}

/// Whatever fails on the replica: the CPU does it, once.
void leave_failing_runs_to_the_cpu(u64 window) {
    for (const FailingRun& one : failing_runs()) {
        for (const bool is_first : {true, false}) {
            SCOPED_TRACE(testing::Message() << one << ' ' << is_first);
            ListingVolume volume;
            volume.replica.queries->use_windows_of(window);
            const Handle some = make_directory(*volume, volume->root(), "some");
            Names early(some, is_first ? 0 : 500, "early");
            EXPECT_EQ(early.create(*volume), early.names.size());
            HostImageBatch& batches = volume.replica.reader->batches;
            if (one.at == FailingRun::At::send)
                make_directory(*volume, volume->root(), "to be sent");
            let_fail(volume, batches, one);
            Names files(some, 500);
            EXPECT_EQ(files.create(*volume), 500u);
            EXPECT_EQ(volume.replica.reports.size(), one.reports);
            batches.after_run = {};
            batches.fails_at_open.store(Errc::ok);
            files.remove(*volume);
            EXPECT_EQ(list_names(*volume, some).size(), early.names.size());
            EXPECT_EQ(volume.replica.queries->statistics().is_on, one.reports == 0);
            if (one.reports == 0) {
                volume.expect_equal_image();
            }
            volume.close_and_check();
        }
    }
}

TEST(ReplicaBatches, AreLeftToTheCpuIfTheReplicaFails) {
    leave_failing_runs_to_the_cpu(1000);
}

TEST(ReplicaBatches, AreLeftToTheCpuIfTheReplicaFailsWhileTheNextIsPacked) {
    leave_failing_runs_to_the_cpu(100);
}

/// An allocation that fails, whichever it is: each item is made or not made, as its result says.
void survive_failed_allocations(u64 window) {
    u64 nth = 1;
    for (bool has_failed = true; has_failed && !testing::Test::HasFailure(); nth += 1 + nth / 8) {
        ListingVolume volume;
        volume.replica.queries->use_windows_of(window);
        const Handle some = make_directory(*volume, volume->root(), "some");
        Names files(some, 100);
        std::vector<Creation> items;
        for (const std::string& name : files.names)
            items.push_back({some, name, {}});
        std::vector<Result<Attributes>> results(items.size(), Errc::io);
        {
            const FailingAllocation failing(nth);
            volume->create_many(anybody, items, results);
            has_failed = failing.has_failed();
        }
        for (u64 i = 0; i < items.size(); ++i) {
            EXPECT_TRUE(results[i] || results[i].code() == Errc::no_memory);
            const auto found = volume->lookup(anybody, some, files.names[i]);
            EXPECT_EQ(found.code(), results[i] ? Errc::ok : Errc::no_entry) << i;
        }
        volume.close_and_check();
    }
    EXPECT_GT(nth, 10u);
}

TEST(ReplicaBatches, SurviveFailedAllocations) {
    survive_failed_allocations(1000);
}

TEST(ReplicaBatches, SurviveFailedAllocationsWhileTheNextIsPacked) {
    survive_failed_allocations(32);
}

TEST(ReplicaBatches, EndWhereTheVolumeIsFull) {
    for (const u64 size : {16 * mib, 64 * mib}) {
        ListingVolume volume(size);
        const u64 inodes_before = volume->statistics().inodes_used;
        u64 made = 0;
        for (u32 i = 0;; ++i) {
            Names files(volume->root(), 8000, std::string(200, 'n') + std::to_string(i) + '.');
            const u64 more = files.create(*volume, {}, Errc::no_space);
            made += more;
            if (more < files.names.size()) break;
        }
        EXPECT_GT(made, 1000u);
        EXPECT_EQ(volume->statistics().inodes_used, inodes_before + made);
        EXPECT_EQ(volume.replica.reader->batches.runs > 0, size == 64 * mib);
        volume.expect_equal_image();
        volume.close_and_check();
    }
}

/// Few items are not worth the question; of many, the sides' times decide.
TEST(ReplicaBatches, AreOfManyItems) {
    AssistedVolume volume(0);
    Names few(volume->root(), 4095, "few");
    EXPECT_EQ(few.create(*volume), few.names.size());
    ReplicaStatistics counts = volume.replica.queries->statistics();
    EXPECT_EQ(counts.by_cpu + counts.by_replica, 0u);
    Names many(volume->root(), 4096, "many");
    EXPECT_EQ(many.create(*volume), many.names.size());
    counts = volume.replica.queries->statistics();
    EXPECT_EQ(counts.by_cpu + counts.by_replica, 1u);
}

/// One file made, looked up, moved or not, and removed or not, by a thread of its own.
void live_through(ListingVolume& volume, Handle shared, Handle other, u64 i,
                  const std::string& name) {
    CreateOptions options;
    options.open = i % 3 == 0;
    const auto made = volume->create(anybody, shared, name, options);
    ASSERT_TRUE(made);
    if (i % 4 == 0) {
        const std::vector<std::byte> bytes(5000, std::byte{1});
        EXPECT_TRUE(volume->write(made->handle, 0, bytes));
    }
    const auto found = volume->lookup(anybody, shared, name);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->handle, made->handle);
    const bool moves = i % 2 == 0;
    if (moves) {
        EXPECT_EQ(volume->rename(anybody, shared, name, other, name), Errc::ok);
    }
    if (i % 5 == 0) {
        EXPECT_EQ(volume->sync(), Errc::ok);
    }
    if (i % 8 != 1) {
        EXPECT_EQ(volume->unlink(anybody, moves ? other : shared, name), Errc::ok);
    }
    if (options.open) {
        EXPECT_EQ(volume->release(made->handle), Errc::ok);
    }
}

/// Threads that make, look up, move, remove and commit in the same directories meanwhile.
TEST(ReplicaBatches, RunBesideOthers) {
    ListingVolume volume(512 * mib);
    volume.replica.queries->use_windows_of(128);
    const Handle shared = make_directory(*volume, volume->root(), "shared");
    const Handle other = make_directory(*volume, volume->root(), "other");
    std::atomic<bool> is_over{false};
    std::vector<std::thread> threads;
    for (u32 t = 0; t < 2; ++t) {
        threads.emplace_back([&, t] {
            for (u64 i = 0; !is_over.load(std::memory_order_relaxed); ++i)
                live_through(volume, shared, other, i, std::to_string(t) + '.' + std::to_string(i));
        });
    }
    threads.emplace_back([&] {
        while (!is_over.load(std::memory_order_relaxed)) {
            std::vector<DirectoryUsage> usage;
            EXPECT_EQ(volume->usage(anybody, volume->root(), {}, usage), Errc::ok);
            EXPECT_EQ(list_names(*volume, volume->root()).size(), 2u);
        }
    });
    const u64 rounds = (is_sanitized ? 8 : 30) * test_load();
    const u64 count = 500;
    for (u64 i = 0; i < rounds && !HasFailure(); ++i) {
        Names files(shared, count);
        EXPECT_EQ(files.create(*volume), count);
        EXPECT_EQ(Names(shared, count).create(*volume), 0u);
        files.move(*volume, other);
        for (u64 f = 0; f < count; f += 50) {
            const auto found = volume->lookup(anybody, other, files.names[f]);
            EXPECT_TRUE(found && found->handle == files.handles[f]);
        }
        files.remove(*volume);
    }
    is_over.store(true, std::memory_order_relaxed);
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_GT(volume.replica.reader->batches.runs, 2 * rounds);
    EXPECT_TRUE(volume.replica.reports.empty());
    volume.expect_equal_image();
    volume.close_and_check();
}

/// The power is cut after each write: a batch that fits in one commit is there as a whole or not.
TEST(ReplicaBatches, AreWholeOrNotBegunIfThePowerIsCut) {
    ListingVolume volume;
    const Handle one = make_directory(*volume, volume->root(), "one");
    const Handle two = make_directory(*volume, volume->root(), "two");
    constexpr u64 count = 300;
    Names files(one, count);
    EXPECT_EQ(volume->sync(), Errc::ok);
    volume.disk->start_recording();
    EXPECT_EQ(files.create(*volume), count);
    EXPECT_EQ(volume->sync(), Errc::ok);
    files.move(*volume, two);
    EXPECT_EQ(volume->sync(), Errc::ok);
    files.remove(*volume);
    EXPECT_EQ(volume->close(), Errc::ok);
    EXPECT_EQ(volume.replica.reader->batches.runs, 3u);
    volume.disk->stop_recording();
    std::set<std::pair<u64, u64>> states;
    for (u64 event = 0; event <= volume.disk->event_count() && !HasFailure(); ++event) {
        const auto image = volume.disk->image_after(event);
        expect_clean(*image);
        const auto opened = open_on(*image);
        ASSERT_NE(opened, nullptr);
        states.emplace(list_names(*opened, one).size(), list_names(*opened, two).size());
        EXPECT_EQ(opened->close(), Errc::ok);
    }
    const std::set<std::pair<u64, u64>> wanted = {{0, 0}, {count, 0}, {0, count}};
    EXPECT_EQ(states, wanted);
}

}  // namespace
}  // namespace warren::replica_batches_test
