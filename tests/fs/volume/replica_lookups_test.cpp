// SPDX-License-Identifier: Apache-2.0
// Lookups of many names of a volume with a replica: both sides give the same answers, and whatever
// fails on the replica is done by the CPU. The replica is in the host's memory here; on a GPU see
// device_replica_test.cu.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "fs/engine/replica/replica_queries.hpp"
#include "tests/fs/engine/numbered_changes.hpp"
#include "tests/support/assisted_volume.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/lookup_questions.hpp"
#include "tests/support/random_operations.hpp"
#include "tests/support/seed.hpp"

namespace warren::replica_lookups_test {
namespace {

const Caller stranger{.user = 7, .group = 7};

TEST(ReplicaLookups, equalThoseOfTheCpu) {
    AssistedVolume volume;
    volume.make_secret();
    const std::vector<Asked> asked = questions_about(*volume);
    ASSERT_GT(asked.size(), 1024u);
    const std::vector<u32> groups = {3, 9};
    for (const Side side : {Side::replica, Side::cpu}) {
        volume.replica.queries->use_only(side);
        const ReplicaStatistics before = volume.replica.queries->statistics();
        expect_lookups(*volume, anybody, asked);
        expect_lookups(*volume, stranger, asked);
        expect_lookups(*volume, {1000, 9, groups, 022, true}, asked);
        const ReplicaStatistics after = volume.replica.queries->statistics();
        EXPECT_EQ(after.by_replica - before.by_replica, side == Side::replica ? 3u : 0u);
        EXPECT_EQ(after.by_cpu - before.by_cpu, side == Side::cpu ? 3u : 0u);
        EXPECT_EQ(after.left, 0u);
    }
}

/// Few names are not worth the question.
TEST(ReplicaLookups, areOfManyNames) {
    AssistedVolume volume;
    volume.replica.queries->use_only(Side::replica);
    expect_lookups(*volume, anybody, {{volume->root(), "no such name", true}});
    EXPECT_EQ(volume.replica.queries->statistics().by_replica, 0u);
    EXPECT_EQ(volume.replica.queries->statistics().by_cpu, 0u);
}

/// After each kind of operation; names that were there are asked for, too, by handles that may be
/// stale.
TEST(ReplicaLookups, agreeWithTheModel) {
    const Seed seed;
    AssistedVolume volume(0);
    volume.replica.queries->use_only(Side::replica);
    RandomPlan plan;
    plan.entries_max = 1200;
    plan.large_batches = true;
    RandomOperations driver(*volume, seed.value(), plan);
    std::vector<Asked> old;
    constexpr u64 names_min = 1024;  // so many are a question for the replica
    u64 questions = 0;
    const u64 rounds = 60 * test_load();
    for (u64 i = 0; i < rounds && !HasFailure(); ++i) {
        // Trees that the replica cannot remove would count as left to the CPU.
        volume.replica.queries->use_only(Side::cpu);
        ASSERT_TRUE(driver.run(30));
        volume.replica.queries->use_only(Side::replica);
        if (i % 8 == 0) {
            ASSERT_EQ(volume.volume.inside().commit_and_free(true), Errc::ok);
        }
        std::vector<Asked> asked = questions_about(*volume);
        std::vector<Asked> all = asked;
        all.insert(all.end(), old.begin(), old.end());
        all.resize(std::max<u64>(all.size(), names_min), {volume->root(), "no such name", true});
        expect_lookups(*volume, anybody, all);
        expect_lookups(*volume, stranger, all);
        questions += 2;
        old = std::move(asked);
    }
    EXPECT_EQ(volume.replica.queries->statistics().by_replica, questions);
    driver.let_all_go();
    EXPECT_EQ(volume.replica.queries->statistics().left, 0u);
}

TEST(ReplicaLookups, seeWhatHasChangedBefore) {
    AssistedVolume volume(0);
    volume.replica.queries->use_only(Side::replica);
    expect_lookups_of_some_moment(*volume, std::chrono::milliseconds(2000 * test_load()));
    EXPECT_GE(volume.replica.queries->statistics().by_replica, 3u);
    EXPECT_EQ(volume.replica.queries->statistics().left, 0u);
}

/// Whether the replica fails before, after the answers or while a version is made: the CPU gives
/// what is missing, and after an error of the device all.
TEST(ReplicaLookups, areLeftToTheCpu) {
    struct Case {
        Errc at_first;
        Errc at_last;
        bool is_image_lost;
        bool stays_on;
    };
    for (const Case& one :
         {Case{Errc::no_space, Errc::ok, false, true}, Case{Errc::ok, Errc::no_space, false, true},
          Case{Errc::io, Errc::ok, false, false}, Case{Errc::ok, Errc::io, false, false},
          Case{Errc::no_memory, Errc::ok, false, false}, Case{Errc::ok, Errc::ok, true, false}}) {
        AssistedVolume volume;
        volume.replica.queries->use_only(Side::replica);
        const std::vector<Asked> asked = questions_about(*volume);
        ASSERT_GT(asked.size(), 1024u);
        expect_lookups(*volume, anybody, asked);
        volume.replica.reader->fails_with.store(one.at_first);
        volume.replica.reader->fails_at_last = one.at_last;
        if (one.is_image_lost) {
            make_directory(*volume, volume->root(), "one more");
            volume.replica.memory->fail_after(0);
        }
        expect_lookups(*volume, anybody, asked);
        expect_lookups(*volume, stranger, asked);
        const ReplicaStatistics counts = volume.replica.queries->statistics();
        EXPECT_EQ(counts.by_replica, 1u);
        EXPECT_EQ(counts.by_cpu, 2u);
        EXPECT_EQ(counts.left, one.stays_on ? 2u : 1u);
        EXPECT_EQ(counts.is_on, one.stays_on);
        EXPECT_EQ(volume.replica.reports.size(), one.stays_on ? 0u : 1u);
    }
}

/// Whichever allocation fails, a name has its answer or Errc::no_memory.
TEST(ReplicaLookups, haveAnswersIfMemoryRunsOut) {
    bool has_failed = true;
    for (u64 nth = 1; has_failed && !HasFailure(); ++nth) {
        SCOPED_TRACE("allocation " + std::to_string(nth));
        AssistedVolume volume;
        volume.replica.queries->use_only(Side::replica);
        const std::vector<Asked> asked = questions_about(*volume);
        std::vector<Lookup> lookups;
        for (const Asked& one : asked)
            lookups.push_back({one.directory, one.name});
        std::vector<Result<Attributes>> found(asked.size(), Errc::io);
        {
            const FailingAllocation failing(nth);
            volume->lookup_many(anybody, lookups, found);
            has_failed = failing.has_failed();
        }
        for (std::size_t i = 0; i < asked.size(); ++i) {
            if (found[i].code() == Errc::no_memory && has_failed) continue;
            const auto wanted = volume->lookup(anybody, asked[i].directory, asked[i].name);
            ASSERT_EQ(found[i].code(), wanted.code()) << i;
        }
        if (!has_failed) {
            EXPECT_EQ(volume.replica.queries->statistics().by_replica, 1u);
        }
    }
}

/// Lookups have rates of their own: the side that is slower for scans may be faster for them.
TEST(ReplicaLookups, runOnTheFasterSide) {
    constexpr u32 rounds = 600;
    const auto run = [](double lookups_on_cpu, double scan_on_cpu) {
        double now = 0;
        AssistedVolume volume(300, [&] { return now; });
        HostReader& reader = *volume.replica.reader;
        reader.instead = [&] {
            now += 1e-3;
            return Errc::ok;
        };
        const ScanCall call{bulk::plan_scan(bulk::ScanPurpose::removal, {}), volume->root()};
        u64 lookups_by_cpu = 0;
        for (u32 i = 0; i < rounds; ++i) {
            const u64 runs = reader.runs;
            volume.replica.queries->look_up(5000, {.check = false}, nullptr, [&] {
                if (reader.runs != runs) return;
                ++lookups_by_cpu;
                now += lookups_on_cpu;
            });
            const Errc code = volume.replica.queries->scan(call, [&](u64& listed) {
                now += scan_on_cpu;
                listed += 300;
                return Errc::ok;
            });
            EXPECT_EQ(code, Errc::ok);
        }
        const ReplicaStatistics counts = volume.replica.queries->statistics();
        EXPECT_EQ(counts.by_cpu + counts.by_replica, 2 * rounds);
        return std::pair(lookups_by_cpu, counts.by_cpu - lookups_by_cpu);
    };
    const auto [slow_lookups, fast_scans] = run(20e-3, 1e-5);
    EXPECT_LT(slow_lookups, rounds / 10);
    EXPECT_GT(fast_scans, rounds / 10 * 9);
    const auto [fast_lookups, slow_scans] = run(1e-5, 20e-3);
    EXPECT_GT(fast_lookups, rounds / 10 * 9);
    EXPECT_LT(slow_scans, rounds / 10);
}

/// Several callers at once, with scans and changes between them.
TEST(ReplicaLookups, runBesideEachOther) {
    AssistedVolume volume;
    volume.replica.queries->use_only(Side::replica);
    const std::vector<Asked> asked = questions_about(*volume);
    std::vector<std::thread> threads;
    for (u32 i = 0; i < 3; ++i) {
        threads.emplace_back([&, i] {
            const std::string own = "own" + std::to_string(i);
            for (u32 n = 0; n < 20; ++n) {
                EXPECT_TRUE(volume->create(anybody, volume->root(), own, {}));
                expect_lookups(*volume, anybody, asked);
                EXPECT_EQ(volume.du(anybody, volume->root()), Errc::ok);
                EXPECT_EQ(volume->unlink(anybody, volume->root(), own), Errc::ok);
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_EQ(volume.replica.queries->statistics().left, 0u);
}

}  // namespace
}  // namespace warren::replica_lookups_test
