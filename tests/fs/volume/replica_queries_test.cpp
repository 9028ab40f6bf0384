// SPDX-License-Identifier: Apache-2.0
// Scans and lookups of many names of a volume with a replica: both sides give the same answers,
// each scan runs once, and whatever fails on the replica is done by the CPU. The replica is in the
// host's memory here; on a GPU see device_replica_test.cu.
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
#include "tests/support/failing_allocations.hpp"
#include "tests/support/lookup_questions.hpp"
#include "tests/support/random_operations.hpp"
#include "tests/support/seed.hpp"

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
        std::vector<ScanPosition> left{{volume->root()}};
        EXPECT_EQ(volume->scan_step(anybody, left, visit, {}, {[] { return true; }}), Errc::ok);
        while (!left.empty())
            EXPECT_EQ(volume->scan_step(anybody, left, visit, {}, {}), Errc::ok);
        return seen;
    };
    AssistedVolume volume(3000);
    volume.replica.queries->use_only(Side::cpu);
    const std::multiset<std::string> all = visits(volume);
    volume.replica.queries->use_only(Side::replica);
    EXPECT_GT(all.size(), 1000u);
    EXPECT_EQ(visits(volume), all);
    volume.replica.reader->fails_at_last = Errc::io;
    EXPECT_EQ(visits(volume), all);
    EXPECT_EQ(volume.replica.reader->runs, 2u);
    EXPECT_EQ(volume.replica.queries->statistics().left, 1u);
    EXPECT_EQ(volume.replica.reports.size(), 1u);
}

/// Without memory for what was visited nothing can be visited but once, so the scan fails.
TEST(ReplicaScans, failIfMemoryRunsOutAmongTheVisits) {
    AssistedVolume volume;
    volume.replica.queries->use_only(Side::replica);
    volume.replica.reader->fails_at_last = Errc::no_memory;
    EXPECT_EQ(volume.find(anybody, volume->root()), Errc::no_memory);
    EXPECT_EQ(volume.replica.queries->statistics().by_cpu, 0u);
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
