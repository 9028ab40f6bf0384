// SPDX-License-Identifier: Apache-2.0
// The simulated walk: no entry of the tree is lost, equal seeds give equal runs, and the results
// match those that can be derived for the schedulers without a run.
#include "tests/support/walk_simulator.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/event_queue.hpp"
#include "tests/support/simulated_tree.hpp"

namespace warren::walk::simulator_test {
namespace {

SimulatedWorld world_of(std::string_view scheduler, u32 ranks, u64 files) {
    SimulatedWorld world;
    world.scheduler = *scheduler_named(scheduler);
    world.ranks = ranks;
    world.files = files;
    world.keeps_pairs = true;
    return world;
}

/// The directories and files of the tree, counted one after the other.
std::pair<u64, u64> count_tree(u64 seed, u64 files) {
    std::vector<std::pair<u64, u64>> left = {{seed, files}};
    u64 directories = 0;
    u64 found = 0;
    while (!left.empty()) {
        const auto [at, below] = left.back();
        left.pop_back();
        const u64 own = own_files(at, below);
        ++directories;
        found += own;
        for_each_child(at, below, own,
                       [&](u64 child, u64 part) { left.emplace_back(child, part); });
    }
    return {directories, found};
}

TEST(Simulator, EveryFileIsCountedOnceByEveryScheduler) {
    for (const SchedulerName& scheduler : scheduler_names()) {
        for (const u32 ranks : {1u, 2u, 5u, 64u}) {
            for (u64 seed = 1; seed <= 6; ++seed) {
                SimulatedWorld world = world_of(scheduler.name, ranks, 3000 * seed);
                world.seed = seed;
                world.threads = scheduler.name.starts_with("h-") ? 4 : 1;
                const SimulatedWalk walk = simulate(world, {});
                const auto [directories, files] = count_tree(seed, world.files);
                EXPECT_EQ(walk.files(), files) << scheduler.name << " " << ranks << " " << seed;
                EXPECT_EQ(files, world.files);
                u64 done = 0;
                for (const SimulatedRank& rank : walk.ranks)
                    done += rank.directories;
                EXPECT_GE(done, directories);  // a large one is read in several parts
                EXPECT_GT(walk.seconds, 0);
            }
        }
    }
}

TEST(Simulator, OneRankTakesWhatItsSystemCallsTake) {
    const SimulatedCosts costs;
    const SimulatedWalk walk = simulate(world_of("deqs", 1, 50000), costs);
    const double expected = 50000 * (costs.name + costs.status) +
                            static_cast<double>(count_tree(1, 50000).first) * costs.directory;
    EXPECT_NEAR(walk.seconds, expected, 0.01 * expected);
    EXPECT_EQ(walk.messages(), 0u);
}

TEST(Simulator, TheSameSeedIsTheSameRun) {
    for (const std::string_view name : {"cp", "drqs", "pa-drqs"}) {
        const SimulatedWalk one = simulate(world_of(name, 20, 40000), {});
        const SimulatedWalk two = simulate(world_of(name, 20, 40000), {});
        EXPECT_EQ(one.seconds, two.seconds);
        EXPECT_EQ(one.pair_bytes, two.pair_bytes);
        SimulatedWorld other = world_of(name, 20, 40000);
        other.seed = 2;
        EXPECT_NE(simulate(other, {}).seconds, one.seconds);
    }
}

TEST(Simulator, OnlyRankZeroSpeaksToWorkersOfCp) {
    const u32 ranks = 12;
    const SimulatedWalk walk = simulate(world_of("cp-directories", ranks, 30000), {});
    const u64 directories = count_tree(1, 30000).first;
    for (u32 from = 1; from < ranks; ++from) {
        for (u32 to = 1; to < ranks; ++to)
            EXPECT_EQ(walk.pair_messages[from * ranks + to], 0u);
    }
    // Each directory is handed out once, and requested once.
    const u64 given =
        std::accumulate(walk.pair_messages.begin(), walk.pair_messages.begin() + ranks, u64{0});
    EXPECT_GE(given, directories);
    EXPECT_GE(walk.messages(), 2 * directories);
    EXPECT_EQ(walk.ranks[0].files, 0u);
}

// In the paper's cp each file is requested, and sent, too.
TEST(Simulator, EveryFileGoesThroughRankZeroInCp) {
    for (const std::string_view name : {"cp", "cp-keep-one"}) {
        const SimulatedWalk walk = simulate(world_of(name, 12, 30000), {});
        EXPECT_GE(walk.messages(), 2 * u64{30000}) << name;
        EXPECT_EQ(walk.ranks[0].files, 0u);
        EXPECT_GE(walk.seconds, 30000 * SimulatedCosts{}.message) << name;
    }
}

TEST(Simulator, EventsComeInTheirOrder) {
    Random random(1);
    EventQueue queue;
    double now = 0;
    u64 left = 0;
    u64 last = 0;
    for (u32 turn = 0; turn < 20000; ++turn) {
        if (left == 0 || random.one_in(2)) {
            // Soon, later, or at the same moment.
            queue.push(now + 1e-6 * static_cast<double>(random.below(5)) *
                                 static_cast<double>(1 + random.below(9000)),
                       0, 0);
            ++left;
        } else {
            const Event event = queue.pop();
            EXPECT_TRUE(event.time > now || event.number > last || event.time == 0);
            EXPECT_GE(event.time, now);
            now = event.time;
            last = event.number;
            --left;
        }
    }
    for (; left > 0; --left) {
        const Event event = queue.pop();
        EXPECT_GE(event.time, now);
        now = event.time;
    }
    EXPECT_TRUE(queue.empty());
}

TEST(Simulator, WorkIsSpreadEvenlyWhereItIsSlow) {
    SimulatedCosts costs;
    costs.callback = 1e-3;
    for (const std::string_view name : {"drqs", "deqs", "pa-drqs"}) {
        const SimulatedWalk walk = simulate(world_of(name, 8, 300000), costs);
        EXPECT_LE(walk.imbalance(), 1.3) << name;
        EXPECT_GE(walk.efficiency(1), 0.8) << name;
    }
}

TEST(Simulator, DistributedQueuesSendFewerMessagesThanACentralOne) {
    const SimulatedWalk central = simulate(world_of("cp", 32, 500000), {});
    SimulatedWorld hybrid = world_of("h-drqs", 8, 500000);
    hybrid.ranks_per_node = 1;
    hybrid.threads = 4;
    const SimulatedWalk threads = simulate(hybrid, {});
    EXPECT_GE(central.messages(), 10 * threads.messages());
    EXPECT_GE(central.bytes(), 10 * threads.bytes());
    EXPECT_LT(threads.seconds, central.seconds);
}

}  // namespace
}  // namespace warren::walk::simulator_test
