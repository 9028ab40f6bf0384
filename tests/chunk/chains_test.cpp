// SPDX-License-Identifier: Apache-2.0
// Chains are used for large inputs only, so these tests make small inputs count as large: rules
// with ten thousand chunks per megabyte, bytes whose chains meet and bytes whose chains never do.
#include "chunk/chains.hpp"

#include <gtest/gtest.h>

#include "chunk/tables.hpp"
#include "tests/chunk/random_cases.hpp"
#include "tests/support/seed.hpp"

namespace warren::chunk::chains_test {
namespace {

Rule random_chain_rule(Random& random) {
    while (true) {
        Rule rule = random_rule(random);
        if (rule.method == Method::gear) {
            rule.minimum_bytes += 63;
            rule.maximum_bytes += 63;
            rule.value = 0;
        }
        // Chunks that end by a match, not all at the maximum.
        if (random.one_in(2)) rule.maximum_bytes += random.below(3000);
        if (Chains::has_way(rule) && describe_problem(rule).empty()) return rule;
    }
}

bool differs(const Case& test, u32 threads) {
    return cut_in_calls(test, threads) != cut_serial(test.rule, test.bytes);
}

TEST(Chains, RandomCasesEqualTheSerialRule) {
    const Seed seed;
    for (u64 index = 0; index < 60 * test_load(); ++index) {
        Random random(seed.part(index));
        Case test;
        test.rule = random_chain_rule(random);
        test.bytes = random_bytes(random, mib + random.below(3 * mib / 2));
        if (random.one_in(2)) test.calls = {static_cast<size_t>(random.below(3 * mib / 2)), 100};
        ASSERT_FALSE(differs(test, 1 + static_cast<u32>(index % 3))) << "case " << index << "\n"
                                                                     << describe(test);
    }
}

TEST(Chains, ThatNeverMeetLeaveTheScanToGoOn) {
    // One byte over and over, and masks that its hash always matches: every chunk has about the
    // minimum length, which divides no distance between two segments.
    const std::vector<std::byte> bytes(4 * mib, std::byte{9});
    for (Rule rule : {*fastcdc_rule(256), *preset("gear")}) {
        const auto& table = rule.method == Method::gear ? gear_table : fastcdc_table;
        rule.mask = rule.early_mask = table[9] - 1;  // what the negative of the entry lacks
        rule.minimum_bytes = 101;
        rule.average_bytes = 200;
        rule.maximum_bytes = 1000;
        ASSERT_TRUE(Chains::has_way(rule));
        const std::vector<u64> expected = cut_serial(rule, bytes);
        ASSERT_LE(expected[1] - expected[0], rule.minimum_bytes + 64);
        Chains chains(rule);
        Workers workers(1);
        const Stretch stretch{reinterpret_cast<const u8*>(bytes.data()), 0};
        std::vector<u64> ends;
        const u64 last = chains.run(workers, stretch, 0, bytes.size(), ends);
        ASSERT_FALSE(ends.empty());
        EXPECT_EQ(last, ends.back());
        EXPECT_FALSE(chains.is_worth_it());
        ASSERT_GE(expected.size(), ends.size());
        EXPECT_TRUE(std::equal(ends.begin(), ends.end(), expected.begin()));
        EXPECT_EQ(cut(rule, bytes, 2), expected);
    }
}

TEST(Chains, LanesByVectorEqualLanesByNumber) {
    if (!can_step_lanes_by_vector()) GTEST_SKIP() << "the processor lacks AVX-512";
    const Seed seed;
    Random random(seed.value());
    for (int round = 0; round < 20'000; ++round) {
        std::vector<u8> bytes(200);
        for (u8& byte : bytes)
            byte = static_cast<u8>(random.next());
        const u64 common = low_bits(2 + random.below(8)) << random.below(50);
        ChainLanes lanes;
        for (ChainLane& lane : lanes) {
            lane.at = random.below(100);
            lane.hash = random.next();
            lane.mask = random.one_in(2) ? common : common | u64{1} << random.below(64);
        }
        ChainLanes others = lanes;
        const u64 steps = 1 + random.below(90);
        const u64* const table = random.one_in(2) ? gear_table.data() : fastcdc_table.data();
        const u64 done = step_lanes_by_number(table, common, bytes.data(), lanes, steps);
        const u64 other = step_lanes_by_vector(table, common, bytes.data(), others, steps);
        // The vector code takes two steps at once, so it may be one step ahead when it stops.
        ASSERT_TRUE(other == done || other == done + 1) << "round " << round;
        for (u32 lane = 0; lane < chain_lanes; ++lane) {
            if (other == done) {
                ASSERT_EQ(others[lane].hash, lanes[lane].hash) << "round " << round;
            }
            if (lanes[lane].found != 0) {
                ASSERT_EQ(others[lane].found, lanes[lane].found) << "round " << round;
            }
            ASSERT_TRUE(others[lane].found == lanes[lane].found || others[lane].found == other);
        }
    }
}

}  // namespace
}  // namespace warren::chunk::chains_test
