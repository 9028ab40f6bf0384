// SPDX-License-Identifier: Apache-2.0
// Scans of a volume with a replica: both sides give the same answers, each entry is visited once,
// and whatever fails on the replica is done by the CPU. The replica is in the host's memory here;
// on a GPU see device_replica_test.cu.
#include "fs/engine/replica/replica_queries.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/fs/engine/numbered_changes.hpp"
#include "tests/support/assisted_volume.hpp"

namespace warren::replica_queries_test {
namespace {

const Caller stranger{.user = 7, .group = 7};

TEST(ReplicaScans, bothSidesGiveTheSameAnswers) {
    AssistedVolume volume;
    for (const Side side : {Side::replica, Side::cpu}) {
        volume.replica.queries->use_only(side);
        const ReplicaStatistics before = volume.replica.queries->statistics();
        OutputScan scan(volume.volume.inside());
        expect_same_answers(scan, volume.volume);
        const ReplicaStatistics after = volume.replica.queries->statistics();
        EXPECT_EQ(after.by_replica - before.by_replica > 8, side == Side::replica);
        EXPECT_EQ(after.by_cpu - before.by_cpu > 8, side == Side::cpu);
        EXPECT_EQ(after.left, 0u);
    }
}

/// What no caller may know is no failure of the replica: the CPU is not asked too.
TEST(ReplicaScans, runOnceIfTheyEndInAnError) {
    AssistedVolume volume;
    const Handle secret = volume.make_secret();
    CreateOptions open_to_all;
    open_to_all.mode = 041777;
    const auto sticky = volume->create(anybody, volume->root(), "sticky", open_to_all);
    ASSERT_TRUE(sticky && volume->create(anybody, sticky->handle, "file", {}));
    const auto check = [&](Handle tree, core::TreeCheck how) {
        return volume.volume.inside().check_removable(credentials_of(stranger), tree, how);
    };
    const auto expect_errors = [&](Side side) {
        volume.replica.queries->use_only(side);
        EXPECT_EQ(volume.find(stranger, secret), Errc::access);
        EXPECT_EQ(volume.du(stranger, secret), Errc::access);
        EXPECT_EQ(check(secret, core::TreeCheck::whole), Errc::access);
        EXPECT_EQ(check(sticky->handle, core::TreeCheck::whole), Errc::not_permitted);
    };
    expect_errors(Side::cpu);
    const ReplicaStatistics before = volume.replica.queries->statistics();
    expect_errors(Side::replica);
    const ReplicaStatistics after = volume.replica.queries->statistics();
    EXPECT_EQ(volume.replica.reader->runs, 4u);
    EXPECT_EQ(after.by_replica - before.by_replica, 4u);
    EXPECT_EQ(after.by_cpu, before.by_cpu);
    EXPECT_TRUE(after.is_on);
    EXPECT_TRUE(volume.replica.reports.empty());
}

/// What the replica has visited when it fails is not visited again: the CPU visits the rest, all of
/// it in one step, and nothing below a directory into which the visitor has declined to descend.
TEST(ReplicaScans, areFinishedByTheCpu) {
    const auto visits = [](AssistedVolume& volume) {
        std::mutex mutex;
        std::multiset<std::string> seen;
        const auto visit = [&](const Scanned& entry) {
            const std::lock_guard lock(mutex);
            seen.insert(std::to_string(entry.directory.inode) + "/" + std::string(entry.name));
            return entry.name.empty() || entry.attributes.handle.inode % 5 != 0;
        };
        ScanFilter filter;
        filter.depth_max = 3;
        std::vector<ScanPosition> left{{volume->root()}};
        EXPECT_EQ(volume->scan_step(anybody, left, visit, filter, {[] { return true; }}), Errc::ok);
        while (!left.empty())
            EXPECT_EQ(volume->scan_step(anybody, left, visit, filter, {}), Errc::ok);
        return seen;
    };
    AssistedVolume volume(3000);
    volume.replica.queries->use_only(Side::cpu);
    const std::multiset<std::string> all = visits(volume);
    volume.replica.queries->use_only(Side::replica);
    EXPECT_GT(all.size(), 100u);
    EXPECT_EQ(visits(volume), all);
    volume.replica.reader->fails_at_last = Errc::io;
    EXPECT_EQ(visits(volume), all);
    EXPECT_EQ(volume.replica.reader->runs, 2u);
    EXPECT_EQ(volume.replica.queries->statistics().left, 1u);
    EXPECT_EQ(volume.replica.reports.size(), 1u);
}

/// Where the CPU finishes a scan, it goes on only when the consumer has room again, or ends with
/// the error for which there will be none.
TEST(ReplicaScans, waitForRoomWhileTheCpuFinishesThem) {
    for (const Errc answer : {Errc::ok, Errc::canceled}) {
        constexpr u64 room = 100;
        AssistedVolume volume(3000);
        volume.replica.queries->use_only(Side::replica);
        u64 all = 0;
        ASSERT_EQ(volume.find(anybody, volume->root(), &all), Errc::ok);
        volume.replica.reader->fails_at_last = Errc::io;
        std::atomic<u64> visits{0};
        std::atomic<u64> held{0};
        u64 waits = 0;  // the first is that of the replica
        u64 most = 0;
        const auto visit = [&](const Scanned&) {
            visits.fetch_add(1);
            held.fetch_add(1);
            return true;
        };
        const auto wait = [&] {
            const u64 before = held.exchange(0);
            if (++waits > 1) most = std::max(most, before);
            return waits > 3 ? answer : Errc::ok;
        };
        std::vector<ScanPosition> left{{volume->root()}};
        const auto is_full = [&] { return held.load() >= room; };
        EXPECT_EQ(volume->scan_step(anybody, left, visit, {}, {is_full, wait}), answer);
        EXPECT_GT(waits, 3u);
        EXPECT_LT(most, all / 4);
        if (answer == Errc::ok) {
            EXPECT_EQ(visits, all);
            EXPECT_TRUE(left.empty());
        }
    }
}

/// Another error behind the first visit ends the scan: that memory has run out for what was
/// visited, or what the caller's wait() returns.
TEST(ReplicaScans, endWithAnErrorBehindTheFirstVisit) {
    AssistedVolume volume;
    volume.replica.queries->use_only(Side::replica);
    const auto visit = [](const Scanned&) { return true; };
    for (const Errc code : {Errc::no_memory, Errc::canceled, Errc::io}) {
        std::vector<ScanPosition> left{{volume->root()}};
        volume.replica.reader->fails_at_last = code == Errc::no_memory ? code : Errc::ok;
        const auto wait = [&] { return code == Errc::no_memory ? Errc::ok : code; };
        EXPECT_EQ(volume->scan_step(anybody, left, visit, {}, {{}, wait}), code);
    }
    EXPECT_EQ(volume.replica.queries->statistics().by_cpu, 0u);
    EXPECT_TRUE(volume.replica.queries->statistics().is_on);
}

/// For what the replica cannot do this time the CPU is asked, which gives the whole answer.
TEST(ReplicaScans, areLeftToTheCpu) {
    AssistedVolume volume;
    volume.replica.queries->use_only(Side::replica);
    u64 entries = 0;
    u64 visits = 0;
    ASSERT_EQ(volume.du(anybody, volume->root(), &entries), Errc::ok);
    ASSERT_EQ(volume.find(anybody, volume->root(), &visits), Errc::ok);
    for (const Errc code : {Errc::no_space, Errc::not_supported, Errc::corrupt}) {
        volume.replica.reader->fails_with.store(code);
        u64 found = 0;
        EXPECT_EQ(volume.du(anybody, volume->root(), &found), Errc::ok);
        EXPECT_EQ(found, entries);
        EXPECT_EQ(volume.find(anybody, volume->root(), &found), Errc::ok);
        EXPECT_EQ(found, visits);
    }
    const ReplicaStatistics counts = volume.replica.queries->statistics();
    EXPECT_EQ(counts.by_replica, 2u);
    EXPECT_EQ(counts.by_cpu, 6u);
    EXPECT_EQ(counts.left, 6u);
    EXPECT_TRUE(counts.is_on);
    EXPECT_TRUE(volume.replica.reports.empty());
    const std::string note = volume->engine_note();
    EXPECT_TRUE(
        note.starts_with("the host's memory does find, du, lookups and changes of many names, "
                         "removals of trees and packing where that is predicted to be faster: "
                         "2 queries by it, 6 by the CPU of which 6 it could not do; predicted "
                         "times were off by "))
        << note;
    EXPECT_TRUE(note.ends_with("% on average")) << note;
}

/// A reader that cannot is soon asked seldom, also if it fails at once.
TEST(ReplicaScans, areNotAskedForInVainForEver) {
    AssistedVolume volume;
    volume.replica.reader->fails_with.store(Errc::no_space);
    for (u32 i = 0; i < 300; ++i)
        EXPECT_EQ(volume.find(anybody, volume->root()), Errc::ok);
    const ReplicaStatistics counts = volume.replica.queries->statistics();
    EXPECT_EQ(counts.by_cpu, 300u);
    EXPECT_LT(counts.left, 150u);
}

/// After a failure of the device, or of the memory of the image, the CPU does all.
TEST(ReplicaScans, areGivenUpAfterAFailure) {
    for (const Errc code : {Errc::io, Errc::no_memory, Errc::ok}) {
        AssistedVolume volume;
        volume.replica.queries->use_only(Side::replica);
        u64 visits = 0;
        ASSERT_EQ(volume.find(anybody, volume->root(), &visits), Errc::ok);
        volume.replica.reader->fails_with.store(code);
        if (code == Errc::ok) {
            make_directory(*volume, volume->root(), "one more");
            ++visits;
            volume.replica.memory->fail_after(0);
        }
        for (u32 i = 0; i < 3; ++i) {
            u64 found = 0;
            EXPECT_EQ(volume.find(anybody, volume->root(), &found), Errc::ok);
            EXPECT_EQ(found, visits);
        }
        ASSERT_EQ(volume.replica.reports.size(), 1u);
        EXPECT_EQ(volume.replica.reports[0],
                  "the GPU beside the CPU engine is not used any more (a test wants it); the CPU "
                  "does all work");
        const ReplicaStatistics counts = volume.replica.queries->statistics();
        EXPECT_FALSE(counts.is_on);
        EXPECT_NE(volume->engine_note().find("is not used any more"), std::string::npos);
        EXPECT_EQ(counts.by_cpu, 3u);
        EXPECT_EQ(counts.left, 1u);
        // A device that has failed is not touched.
        EXPECT_EQ(*volume.replica.images, code == Errc::no_memory ? 0 : 1);
        EXPECT_EQ(volume->release_device_memory(), Errc::no_device);
    }
}

/// The faster side is used, by a clock that the sides advance.
TEST(ReplicaScans, runOnTheFasterSide) {
    double now = 0;
    AssistedVolume volume(300, [&] { return now; });
    volume.replica.reader->instead = [&] {
        now += 1e-3;
        return Errc::ok;
    };
    const ScanCall call{bulk::plan_scan(bulk::ScanPurpose::removal, {}), volume->root()};
    const auto scans_by_cpu = [&](double seconds) {
        const u64 before = volume.replica.queries->statistics().by_cpu;
        for (u32 i = 0; i < 600; ++i) {
            const Errc code = volume.replica.queries->scan(call, [&](u64& listed) {
                now += seconds;
                listed += 300;
                return Errc::ok;
            });
            EXPECT_EQ(code, Errc::ok);
        }
        return volume.replica.queries->statistics().by_cpu - before;
    };
    EXPECT_GT(scans_by_cpu(1e-5), 550u);
    EXPECT_LT(scans_by_cpu(20e-3), 50u);
    EXPECT_LT(scans_by_cpu(20e-3), 20u);
    EXPECT_LT(volume.replica.queries->statistics().error_percent, 20u);
}

/// What the choice is made of is told, each kind for itself, as long as there is a choice.
TEST(ReplicaScans, haveTheirPredictionsTold) {
    double now = 0;
    AssistedVolume volume(300, [&] { return now; });
    const std::vector<std::string> before = volume->predictions();
    ASSERT_EQ(before.size(), query_kinds);
    for (const std::string& line : before) {
        EXPECT_NE(line.find(": on the CPU "), std::string::npos) << line;
        EXPECT_NE(line.find(" a name; on the host's memory "), std::string::npos) << line;
    }
    volume.replica.queries->use_only(Side::cpu);
    const ScanCall call{bulk::plan_scan(bulk::ScanPurpose::removal, {}), volume->root()};
    const auto scan_on_cpu = [&](u64& listed) {
        now += 1;
        listed += 300;
        return Errc::ok;
    };
    EXPECT_EQ(volume.replica.queries->scan(call, scan_on_cpu), Errc::ok);
    const std::vector<std::string> after = volume->predictions();
    ASSERT_EQ(after.size(), query_kinds);
    EXPECT_NE(after[0], before[0]);
    EXPECT_TRUE(std::equal(after.begin() + 1, after.end(), before.begin() + 1));
    volume.replica.queries->use_only(Side::replica);
    volume.replica.reader->fails_with.store(Errc::io);
    EXPECT_EQ(volume.du(anybody, volume->root()), Errc::ok);
    EXPECT_TRUE(volume->predictions().empty());
}

/// Scans of any kind by several threads, with changes between them.
TEST(ReplicaScans, runBesideEachOtherAndWriters) {
    AssistedVolume volume;
    std::atomic<bool> is_over{false};
    std::vector<std::thread> threads;
    threads.emplace_back([&] {
        const Handle some = make_directory(*volume, volume->root(), "some");
        for (u64 i = 0; !is_over.load(std::memory_order_relaxed); ++i) {
            const std::string name = std::to_string(i);
            EXPECT_TRUE(volume->create(anybody, some, name, {}));
            if (i % 2 == 0) {
                EXPECT_EQ(volume->unlink(anybody, some, name), Errc::ok);
            }
        }
    });
    constexpr u64 scans = 40;
    std::vector<std::thread> scanning;
    for (u32 i = 0; i < 3; ++i) {
        scanning.emplace_back([&] {
            for (u64 n = 0; n < scans; ++n) {
                EXPECT_EQ(volume.find(anybody, volume->root()), Errc::ok);
                EXPECT_EQ(volume.du(anybody, volume->root()), Errc::ok);
            }
        });
    }
    for (std::thread& thread : scanning)
        thread.join();
    is_over.store(true, std::memory_order_relaxed);
    threads[0].join();
    const ReplicaStatistics counts = volume.replica.queries->statistics();
    EXPECT_EQ(counts.by_cpu + counts.by_replica, 6 * scans);
    EXPECT_GT(counts.by_cpu, 0u);
}

/// Without a GPU, or where it cannot help, the volume opens all the same.
TEST(ReplicaScans, areOptional) {
    const auto disk = make_memory_disk(64 * mib);
    std::vector<std::string> warnings;
    OpenOptions options{.workers = 1, .meta_buffer_bytes = mib};
    options.device_memory_bytes = gib;
    options.warn = [&](const std::string& line) { warnings.push_back(line); };
    InsideVolume opened(*disk, options);
    Volume* const volume = &*opened;
    EXPECT_EQ(volume->engine(), "cpu");
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_EQ(warnings[0],
              "no GPU works beside the CPU engine (a meta buffer limits the metadata in memory); "
              "the CPU does all work");
    EXPECT_EQ(volume->engine_note() + "; the CPU does all work", warnings[0]);
    EXPECT_EQ(volume->release_device_memory(), Errc::no_device);
    EXPECT_TRUE(volume->predictions().empty());
    ASSERT_TRUE(volume->create(anybody, volume->root(), "file", {}));
    std::vector<DirectoryUsage> usage;
    EXPECT_EQ(volume->usage(anybody, volume->root(), {}, usage), Errc::ok);
    EXPECT_EQ(usage[0].entries, 2u);
}

}  // namespace
}  // namespace warren::replica_queries_test
