// SPDX-License-Identifier: Apache-2.0
// Which side a query takes, with two sides whose times are formulas and random noise: those of an
// H200 beside 16 cores (bench/results/replica_bench.csv).
#include "fs/engine/replica/side_choice.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.hpp"
#include "tests/support/seed.hpp"

namespace warren::side_choice_test {
namespace {

constexpr u64 all_items = 1'000'000;

class FakeSides {
 public:
    explicit FakeSides(u64 seed) : random_(seed) {}

    double cpu_factor = 1;
    double replica_factor = 1;
    double query_seconds = 40e-6;
    double version_seconds = 60e-6;

    double seconds(Side side, u64 items, u64 marked) const {
        const auto n = static_cast<double>(items);
        const auto blocks = static_cast<double>(marked);
        if (side == Side::cpu) return cpu_factor * (10e-6 + 2.45e-9 * n);
        const double sending = std::min(190e-9 * blocks, 1.4e-3 + 51e-9 * blocks);
        const double version = marked == 0 ? 0 : version_seconds;
        return replica_factor * (query_seconds + 0.18e-9 * n + version + sending);
    }
    double least(u64 items, u64 marked) const {
        return std::min(seconds(Side::cpu, items, marked), seconds(Side::replica, items, marked));
    }

    /// Runs a query on the side that `choice` chooses.
    SideChoice::Choice run(SideChoice& choice, const Query& query, u64 marked) {
        const SideChoice::Choice chosen = choice.choose(query, [&] { return marked; });
        const double noise = 0.9 + 0.2 * static_cast<double>(random_.below(1'000'000)) / 1'000'000;
        choice.learn(query, chosen, noise * seconds(chosen.side, query.items, marked));
        return chosen;
    }
    /// What a volume measures when it is opened.
    void measure(SideChoice& choice) const {
        choice.start(Side::replica, 0, 70'000, 100e-9 * 70'000);
        choice.start(Side::replica, all_items, 0, seconds(Side::replica, all_items, 0));
        choice.start(Side::cpu, all_items, 0, 2.2 * seconds(Side::cpu, all_items, 0));  // du
    }

 private:
    Random random_;
};

constexpr Query find_in_all{QueryKind::find_some, all_items};

TEST(CostModel, learnsEachRate) {
    const Seed seed;
    Random random(seed.value());
    const CostModel::Terms rates = {1e-4, 3e-9, 4e-4, 8e-8};
    CostModel model({1e-3, 1e-9, 1e-4, 1e-6});
    const CostModel truth(rates);
    const auto next = [&] {
        const double blocks = std::exp2(random.below(18)) - 1;
        return CostModel::Terms{1, std::exp2(random.below(22)), blocks == 0 ? 0. : 1., blocks};
    };
    for (u32 i = 0; i < 2000; ++i) {
        const CostModel::Terms amounts = next();
        model.learn(amounts, truth.predict(amounts), i == 0 ? 1 : 0.3);
    }
    for (u32 i = 0; i < 200; ++i) {
        const CostModel::Terms amounts = next();
        EXPECT_NEAR(model.predict(amounts) / truth.predict(amounts), 1, 0.05);
    }
}

TEST(CostModel, keepsTheRateOfATermThatHadNoPart) {
    CostModel model({1e-4, 1e-9, 1e-5, 1e-7});
    model.learn({1, 1000, 0, 0}, 5e-3, 1);
    EXPECT_NEAR(model.predict({1, 1000, 0, 0}), 5e-3, 1e-9);
    EXPECT_NEAR(model.predict({0, 0, 1, 0}), 1e-5, 1e-10);
    EXPECT_NEAR(model.predict({0, 0, 0, 1}), 1e-7, 1e-12);
}

/// The faster side along a sweep, except for a few tries; all in all within 25% of the best.
TEST(SideChoice, followsTheLowerEnvelope) {
    const Seed seed;
    for (const bool is_measured : {true, false}) {
        FakeSides sides(seed.value());
        SideChoice choice(16);
        if (is_measured) sides.measure(choice);
        double taken = 0;
        double best = 0;
        u32 rounds = 0;
        const auto sweep = [&](bool is_settled) {
            for (u64 items = 1; items <= all_items; items *= 2) {
                for (const u64 marked : {0, 10, 100, 1'000, 5'000, 10'000, 30'000, 100'000}) {
                    const auto chosen = sides.run(choice, {QueryKind::find_some, items}, marked);
                    const double seconds = sides.seconds(chosen.side, items, marked);
                    const double least = sides.least(items, marked);
                    taken += seconds;
                    best += least;
                    if (!is_settled || chosen.is_try) continue;
                    EXPECT_LE(seconds, 1.25 * least) << items << " items, " << marked << " marked";
                }
            }
        };
        for (; rounds < 20; ++rounds)
            sweep(rounds >= 2);
        EXPECT_LE(taken, 1.25 * best) << "measured first: " << is_measured;
        EXPECT_LT(choice.mean_error(), 1.25);
    }
}

/// What it takes to make a version does not count where nothing is marked: queries of a few names
/// that the replica answers sooner run there all the same.
TEST(SideChoice, tellsAVersionFromAQuery) {
    const Seed seed;
    FakeSides sides(seed.value());
    sides.query_seconds = 5e-6;
    sides.version_seconds = 300e-6;
    SideChoice choice(16);
    sides.measure(choice);
    const Query small{QueryKind::measure, 16};
    const auto behind_changes = [&] {
        const SideChoice::Choice forced{Side::replica, 10, false};
        choice.learn(small, forced, sides.seconds(Side::replica, small.items, forced.marked));
    };
    for (u32 i = 0; i < 100; ++i) {
        behind_changes();
        sides.run(choice, small, 0);
    }
    for (u32 i = 0; i < 100; ++i) {
        behind_changes();
        const SideChoice::Choice chosen = sides.run(choice, small, 0);
        EXPECT_TRUE(chosen.side == Side::replica || chosen.is_try) << i;
    }
}

/// The number of queries until the choice is `side`, apart from tries.
u32 queries_until(FakeSides& sides, SideChoice& choice, Side side) {
    u32 queries = 0;
    for (bool is_there = false; !is_there && queries < 10'000; ++queries) {
        const auto chosen = sides.run(choice, find_in_all, 0);
        is_there = chosen.side == side && !chosen.is_try;
    }
    return queries;
}

TEST(SideChoice, adaptsWhenASideBecomesSlower) {
    const Seed seed;
    FakeSides sides(seed.value());
    SideChoice choice(16);
    sides.measure(choice);
    EXPECT_LE(queries_until(sides, choice, Side::replica), 3u);
    sides.replica_factor = 30;  // another program uses the GPU
    EXPECT_LE(queries_until(sides, choice, Side::cpu), 20u);
    sides.replica_factor = 1;
    EXPECT_LE(queries_until(sides, choice, Side::replica), 3000u);
    sides.cpu_factor = 0.05;
    EXPECT_LE(queries_until(sides, choice, Side::cpu), 3000u);
}

/// Each side runs now and then, and tries take at most an eighth more time, less as they fail.
TEST(SideChoice, leavesNoSideOut) {
    const Seed seed;
    for (const double factor : {1, 200}) {
        FakeSides sides(seed.value());
        sides.replica_factor = factor;
        SideChoice choice(16);
        sides.measure(choice);
        for (u32 i = 0; i < 50; ++i)
            sides.run(choice, find_in_all, 0);
        u32 tries = 0;
        double taken = 0;
        constexpr u32 queries = 200'000;
        for (u32 i = 0; i < queries; ++i) {
            const auto chosen = sides.run(choice, find_in_all, 0);
            tries += chosen.is_try ? 1 : 0;
            taken += sides.seconds(chosen.side, all_items, 0);
        }
        EXPECT_GT(tries, 2u) << factor;
        EXPECT_LT(taken, 1.01 * queries * sides.least(all_items, 0)) << factor;
    }
}

/// Blocks that stay marked while the CPU answers are sent after some queries: each of the following
/// is faster. Writers that mark as many before each query make that vain, so it is done less often.
TEST(SideChoice, sendsManyMarkedBlocksOnceThatPays) {
    const Seed seed;
    for (const bool are_marked_again : {false, true}) {
        FakeSides sides(seed.value());
        SideChoice choice(16);
        sides.measure(choice);
        for (u32 i = 0; i < 20; ++i)
            sides.run(choice, find_in_all, 0);
        u64 marked = 100'000;
        double taken = 0;
        u32 sent = 0;
        constexpr u32 queries = 1000;
        for (u32 i = 0; i < queries; ++i) {
            const auto chosen = sides.run(choice, find_in_all, marked);
            taken += sides.seconds(chosen.side, all_items, marked);
            if (chosen.side != Side::replica || marked == 0) continue;
            ++sent;
            if (!are_marked_again) marked = 0;
        }
        EXPECT_GE(sent, 1u);
        if (are_marked_again) {
            EXPECT_LE(taken, 1.1 * queries * sides.least(all_items, marked));
        } else {
            EXPECT_EQ(marked, 0u);
            EXPECT_LE(taken, 0.5 * queries * sides.seconds(Side::cpu, all_items, 0));
        }
    }
}

/// A query that the CPU answers in microseconds does not wait for marks to be counted.
/// After a release the time on the CPU is eight times what loading takes, or more, and what was
/// spent before does not count.
TEST(SideChoice, loadsOnceThatPays) {
    const Seed seed;
    for (const u64 blocks : {1'000, 70'000}) {
        FakeSides sides(seed.value());
        SideChoice choice(16);
        sides.measure(choice);
        for (u32 i = 0; i < 50; ++i)
            sides.run(choice, find_in_all, 0);
        for (u32 round = 0; round < 5; ++round) {
            for (u32 i = 0; i < 1000; ++i)
                sides.run(choice, {QueryKind::find_some, 100}, 0);  // on the CPU
            choice.note_release();
            double spent = 0;
            bool is_released = true;
            for (u32 i = 0; is_released && i < 10'000; ++i) {
                const auto chosen = choice.choose(
                    find_in_all, [&] { return blocks; }, true);
                is_released = chosen.side == Side::cpu;
                const double seconds = sides.seconds(chosen.side, all_items, chosen.marked);
                choice.learn(find_in_all, chosen, seconds);
                if (is_released) spent += seconds;
            }
            const double load = sides.seconds(Side::replica, all_items, blocks);
            EXPECT_GT(spent, 5 * load) << blocks;
            EXPECT_LT(spent, 20 * load) << blocks;
            EXPECT_EQ(choice.choose(find_in_all, [] { return u64{0}; }).side, Side::replica);
        }
    }
}

TEST(SideChoice, countsMarksOnlyIfTheyMatter) {
    FakeSides sides(1);
    SideChoice choice(16);
    sides.measure(choice);
    const auto never = [&]() -> u64 {
        ADD_FAILURE() << "counted";
        return 0;
    };
    EXPECT_EQ(choice.choose({QueryKind::find_some, 10}, never).side, Side::cpu);
    u32 counted = 0;
    const auto chosen = choice.choose(find_in_all, [&]() -> u64 {
        ++counted;
        return 1'000'000;
    });
    EXPECT_EQ(counted, 1u);
    EXPECT_EQ(chosen.side, Side::cpu);
    EXPECT_EQ(chosen.marked, 1'000'000u);
}

TEST(SideChoice, tellsItsRates) {
    FakeSides sides(1);
    SideChoice choice(16);
    sides.measure(choice);
    const auto blocks = [&](QueryKind kind) { return choice.rates(kind, Side::replica)[3]; };
    EXPECT_NEAR(blocks(QueryKind::check), 100e-9, 5e-9);
    EXPECT_NEAR(blocks(QueryKind::remove), 100e-9, 5e-9);
    const double name = choice.rates(QueryKind::check, Side::cpu)[1];
    EXPECT_NEAR(name, 2.2 * 2.45e-9, 0.2e-9);
    choice.learn({QueryKind::check, all_items}, {Side::cpu, 0, false}, 2 * name * all_items);
    EXPECT_NEAR(choice.rates(QueryKind::check, Side::cpu)[1], 2 * name, 0.2e-9);
    EXPECT_NEAR(choice.rates(QueryKind::remove, Side::cpu)[1], name, 0.2e-9);
}

/// One query that took a minute is soon forgotten.
TEST(SideChoice, getsOverAnOutlier) {
    const Seed seed;
    FakeSides sides(seed.value());
    SideChoice choice(16);
    sides.measure(choice);
    for (u32 i = 0; i < 20; ++i)
        sides.run(choice, find_in_all, 0);
    const auto chosen = choice.choose(find_in_all, [] { return u64{0}; });
    choice.learn(find_in_all, chosen, 60);
    EXPECT_LE(queries_until(sides, choice, Side::replica), 20u);
}

/// The kinds of queries do not disturb each other.
TEST(SideChoice, keepsKindsApart) {
    FakeSides sides(1);
    SideChoice choice(16);
    sides.measure(choice);
    const Query check{QueryKind::check, all_items};
    for (u32 i = 0; i < 20; ++i) {
        sides.run(choice, find_in_all, 0);
        const auto chosen = choice.choose(check, [] { return u64{0}; });
        choice.learn(check, chosen, chosen.side == Side::cpu ? 1e-5 : 1e-2);
    }
    EXPECT_EQ(queries_until(sides, choice, Side::replica), 1u);
    EXPECT_EQ(choice.choose(check, [] { return u64{0}; }).side, Side::cpu);
}

}  // namespace
}  // namespace warren::side_choice_test
