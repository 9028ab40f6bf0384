// SPDX-License-Identifier: Apache-2.0
// The memory of a replica is given back when asked, beside readers and writers, and taken again for
// a query that gains by it. All answers stay right.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "tests/fs/engine/numbered_changes.hpp"
#include "tests/support/assisted_volume.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/lookup_questions.hpp"
#include "tests/support/seed.hpp"

namespace warren::replica_release_test {
namespace {

using std::chrono::milliseconds;

/// A volume whose replica is asked for every query.
struct EagerVolume : AssistedVolume {
    EagerVolume() { replica.queries->use_only(Side::replica); }

    int images() const { return *replica.images; }
    void expect_released() {
        EXPECT_EQ(images(), 0);
        EXPECT_FALSE(replica.queries->statistics().has_memory);
    }
};

TEST(ReplicaRelease, isUndoneByTheNextQueryOfTheReplica) {
    EagerVolume volume;
    EXPECT_EQ(volume.du(anybody, volume->root()), Errc::ok);
    EXPECT_EQ(volume.images(), 1);
    EXPECT_TRUE(volume.replica.queries->statistics().has_memory);
    for (u32 round = 0; round < 3; ++round) {
        for (u32 i = 0; i < 2; ++i) {
            const u64 drops = volume.replica.reader->drops;
            EXPECT_EQ(volume->release_device_memory(), Errc::ok);
            EXPECT_GT(volume.replica.reader->drops, drops);
            volume.expect_released();
        }
        EXPECT_NE(volume->engine_note().find("the host's memory has given its memory back, and"),
                  std::string::npos)
            << volume->engine_note();
        make_directory(*volume, volume->root(), "new" + std::to_string(round));
        volume.replica.queries->use_only(Side::cpu);
        u64 wanted = 0;
        EXPECT_EQ(volume.du(anybody, volume->root(), &wanted), Errc::ok);
        volume.expect_released();
        volume.replica.queries->use_only(Side::replica);
        u64 found = 0;
        EXPECT_EQ(volume.du(anybody, volume->root(), &found), Errc::ok);
        EXPECT_EQ(found, wanted);
        EXPECT_EQ(volume.images(), 1);
        EXPECT_NE(volume->engine_note().find("does find, du, lookups and"), std::string::npos);
        EXPECT_EQ(volume->release_device_memory(), Errc::ok);
        expect_lookups(*volume, anybody, questions_about(*volume));
        EXPECT_EQ(volume.images(), 1);
    }
    EXPECT_EQ(volume.replica.queries->statistics().left, 0u);
    EXPECT_TRUE(volume.replica.reports.empty());
}

/// A query that reads the image keeps it; one that comes next does not.
TEST(ReplicaRelease, waitsForReaders) {
    EagerVolume volume;
    std::atomic<bool> is_reading{false};
    std::atomic<bool> may_end{false};
    volume.replica.reader->instead = [&] {
        is_reading.store(true);
        while (!may_end.load())
            std::this_thread::yield();
        return volume.images() == 1 ? Errc::ok : Errc::corrupt;
    };
    std::thread reading([&] { EXPECT_EQ(volume.du(anybody, volume->root()), Errc::ok); });
    while (!is_reading.load())
        std::this_thread::yield();
    std::atomic<bool> is_released{false};
    std::thread releasing([&] {
        EXPECT_EQ(volume->release_device_memory(), Errc::ok);
        is_released.store(true);
    });
    std::this_thread::sleep_for(milliseconds(30));
    EXPECT_FALSE(is_released.load());
    EXPECT_EQ(volume.images(), 1);
    make_directory(*volume, volume->root(), "others go on");
    may_end.store(true);
    reading.join();
    releasing.join();
    volume.expect_released();
    EXPECT_EQ(volume.replica.queries->statistics().left, 0u);
}

/// Visitors may take as long as they want; what their scan has in use is freed when they end.
TEST(ReplicaRelease, doesNotWaitForVisitors) {
    EagerVolume volume;
    u64 wanted = 0;
    ASSERT_EQ(volume.find(anybody, volume->root(), &wanted), Errc::ok);
    std::atomic<u64> visits{0};
    std::atomic<u64> drops{0};
    const auto visit = [&](const Scanned& found) {
        visits.fetch_add(1);
        if (found.depth == 1 && drops == 0) {
            EXPECT_EQ(volume->release_device_memory(), Errc::ok);
            volume.expect_released();
            drops = volume.replica.reader->drops.load();
        }
        return true;
    };
    EXPECT_EQ(volume->scan(anybody, volume->root(), visit), Errc::ok);
    EXPECT_EQ(visits, wanted);
    volume.expect_released();
    EXPECT_GT(volume.replica.reader->drops, drops);
}

/// A query that chose the replica before the release does not load it.
TEST(ReplicaRelease, isNotUndoneByAnEarlierChoice) {
    EagerVolume volume;
    std::atomic<bool> is_reading{false};
    std::atomic<u64> runs{0};
    volume.replica.reader->instead = [&] {
        // The others wait for a new version, or have been refused one.
        if (runs.fetch_add(1) == 0) {
            is_reading.store(true);
            std::this_thread::sleep_for(milliseconds(50));
        }
        return Errc::ok;
    };
    std::thread reading([&] { EXPECT_EQ(volume.du(anybody, volume->root()), Errc::ok); });
    while (!is_reading.load())
        std::this_thread::yield();
    std::thread releasing([&] { EXPECT_EQ(volume->release_device_memory(), Errc::ok); });
    std::this_thread::sleep_for(milliseconds(10));  // by then it is the next
    std::thread late([&] { EXPECT_EQ(volume.du(anybody, volume->root()), Errc::ok); });
    for (std::thread* const thread : {&reading, &releasing, &late})
        thread->join();
    volume.expect_released();
    EXPECT_EQ(runs, 1u);
    EXPECT_EQ(volume.replica.queries->statistics().left, 1u);
}

/// Answers stay right while the memory comes and goes.
TEST(ReplicaRelease, happensBesideReadersAndWriters) {
    EagerVolume volume;
    std::atomic<bool> is_over{false};
    std::atomic<u64> releases{0};
    std::thread releasing([&] {
        while (!is_over.load(std::memory_order_relaxed)) {
            EXPECT_EQ(volume->release_device_memory(), Errc::ok);
            releases.fetch_add(1);
            std::this_thread::sleep_for(milliseconds(1));
        }
    });
    std::thread finding([&] {
        while (!is_over.load(std::memory_order_relaxed))
            EXPECT_EQ(volume.find(anybody, volume->root()), Errc::ok);
    });
    expect_lookups_of_some_moment(*volume, milliseconds(1000 * test_load()));
    is_over.store(true, std::memory_order_relaxed);
    releasing.join();
    finding.join();
    EXPECT_EQ(volume->release_device_memory(), Errc::ok);
    volume.expect_released();
    EXPECT_GT(releases, 3u);
    EXPECT_GT(volume.replica.queries->statistics().by_replica, 3u);
    EXPECT_TRUE(volume.replica.reports.empty());
    EXPECT_EQ(volume->close(), Errc::ok);
    EXPECT_TRUE(expect_clean(*volume.disk));
}

/// While somebody else has the memory the CPU works, and afterwards the replica is back.
TEST(ReplicaRelease, lastsWhileThereIsNoMemory) {
    EagerVolume volume;
    u64 wanted = 0;
    ASSERT_EQ(volume.du(anybody, volume->root(), &wanted), Errc::ok);
    ASSERT_EQ(volume->release_device_memory(), Errc::ok);
    const auto du = [&] {
        u64 found = 0;
        EXPECT_EQ(volume.du(anybody, volume->root(), &found), Errc::ok);
        EXPECT_EQ(found, wanted);
    };
    const std::vector<std::function<Errc(HostReplica&)>> shortages = {
        [](HostReplica&) { return Errc::no_memory; },
        [](HostReplica& image) {
            image.fail_after(0, Errc::no_memory);
            return Errc::ok;
        },
        [](HostReplica&) -> Errc { throw std::bad_alloc(); }};
    for (const auto& shortage : shortages) {
        volume.replica.at_load = shortage;
        for (u32 i = 0; i < 3; ++i) {
            du();
            volume.expect_released();
            EXPECT_TRUE(volume.replica.queries->statistics().is_on);
        }
    }
    // There is memory for the image, but not for a scan.
    volume.replica.at_load = nullptr;
    volume.replica.reader->fails_with.store(Errc::no_memory);
    du();
    volume.expect_released();
    EXPECT_EQ(volume.replica.queries->statistics().left, 10u);
    volume.replica.reader->fails_with.store(Errc::ok);
    du();
    EXPECT_EQ(volume.images(), 1);
    EXPECT_EQ(volume.replica.queries->statistics().left, 10u);
    EXPECT_TRUE(volume.replica.reports.empty());
}

/// A device that has failed is not touched, not even to free the rest of its memory.
TEST(ReplicaRelease, endsWhenTheDeviceFails) {
    EagerVolume volume;
    ASSERT_EQ(volume->release_device_memory(), Errc::ok);
    const u64 drops = volume.replica.reader->drops;
    volume.replica.at_load = [](HostReplica&) { return Errc::io; };
    EXPECT_EQ(volume.du(anybody, volume->root()), Errc::ok);
    EXPECT_FALSE(volume.replica.queries->statistics().is_on);
    EXPECT_EQ(volume->release_device_memory(), Errc::no_device);
    EXPECT_EQ(volume.replica.reader->drops, drops);
}

/// Whichever allocation fails while the replica is loaded again.
TEST(ReplicaRelease, lastsIfMemoryRunsOut) {
    EagerVolume volume;
    volume.replica.reader->instead = [] { return Errc::ok; };
    u64 failures = 0;
    for (bool has_failed = true; has_failed && !HasFailure(); failures += has_failed ? 1 : 0) {
        EXPECT_EQ(volume->release_device_memory(), Errc::ok);
        std::vector<DirectoryUsage> usage(1);
        Errc code = Errc::ok;
        {
            const FailingAllocation failing(failures + 1);
            code = volume->usage(anybody, volume->root(), {}, usage);
            has_failed = failing.has_failed();
        }
        EXPECT_TRUE(code == Errc::ok || (has_failed && code == Errc::no_memory)) << failures;
    }
    EXPECT_GT(failures, 3u);
    EXPECT_TRUE(volume.replica.queries->statistics().is_on);
    EXPECT_EQ(volume.images(), 1);
}

/// By a clock that the sides advance. Loading costs nothing there; see SideChoice.* for what it
/// does.
TEST(ReplicaRelease, lastsUntilLoadingHasPaid) {
    double now = 0;
    AssistedVolume volume(300, [&] { return now; });
    volume.replica.reader->instead = [&] {
        now += 1e-3;
        return Errc::ok;
    };
    const ScanCall call{bulk::plan_scan(bulk::ScanPurpose::removal, {}), volume->root()};
    const auto scan = [&](double on_cpu) {
        const auto scan_on_cpu = [&](u64& listed) {
            now += on_cpu;
            listed += 300;
            return Errc::ok;
        };
        EXPECT_EQ(volume.replica.queries->scan(call, scan_on_cpu), Errc::ok);
    };
    const auto scans_until_loaded = [&](double on_cpu) {
        EXPECT_EQ(volume->release_device_memory(), Errc::ok);
        u32 scans = 0;
        for (; *volume.replica.images == 0 && scans < 1000; ++scans)
            scan(on_cpu);
        return scans;
    };
    for (u32 i = 0; i < 200; ++i)
        scan(5e-3);
    EXPECT_EQ(*volume.replica.images, 1);
    // Some eight milliseconds on the CPU, and the scan that loads.
    for (u32 round = 0; round < 3; ++round) {
        const u32 scans = scans_until_loaded(5e-3);
        EXPECT_GE(scans, 2u);
        EXPECT_LE(scans, 10u);
        for (u32 i = 0; i < 50; ++i)
            scan(5e-3);
    }
    EXPECT_GT(scans_until_loaded(1e-5), 100u);
}

}  // namespace
}  // namespace warren::replica_release_test
