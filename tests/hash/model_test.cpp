// SPDX-License-Identifier: Apache-2.0
// The model of the five stages against the paper's own example, and the choice that it makes.
#include "hash/model.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "hash/choice.hpp"
#include "hash/device.hpp"
#include "tests/hash/messages.hpp"

namespace warren::hash {
namespace {

/// Section 2.2.2: 96 MB are copied in 37.4 ms, hashed in 41.8 ms, and results copied in 1.0 ms.
constexpr u64 paper_bytes = 96 * mib;
Rates rates_of_the_paper() {
    Rates rates;
    rates.copy_in = paper_bytes / 37.4e-3;
    rates.kernel = paper_bytes / 41.8e-3;
    rates.copy_out = paper_bytes / 100 / 1.0e-3;
    rates.cpu = paper_bytes / 200e-3;
    return rates;
}

constexpr Load paper_load = {.input_bytes = paper_bytes,
                             .work_bytes = paper_bytes,
                             .output_bytes = paper_bytes / 100,
                             .slot_bytes = paper_bytes,
                             .overlaps = false};

TEST(HashModel, SumsTheStagesOfThePaper) {
    EXPECT_NEAR(predict_device(rates_of_the_paper(), paper_load), 80.2e-3, 1e-6);
    Rates rates = rates_of_the_paper();
    rates.initialise_seconds = 0.014;
    EXPECT_NEAR(predict_device(rates, paper_load), 94.2e-3, 1e-6);
}

TEST(HashModel, OverlapLeavesTheLongestStage) {
    Load load = paper_load;
    load.overlaps = true;
    load.slot_bytes = paper_bytes / 96;
    const double seconds = predict_device(rates_of_the_paper(), load);
    EXPECT_GT(seconds, 41.8e-3);
    EXPECT_LT(seconds, 41.8e-3 + 1e-3);
}

TEST(HashModel, StagingIsAStage) {
    Load load = paper_load;
    load.is_staged = true;
    Rates rates = rates_of_the_paper();
    rates.staging = paper_bytes / 50e-3;
    EXPECT_NEAR(predict_device(rates, load), 130.2e-3, 1e-6);
    load.overlaps = true;
    load.slot_bytes = mib;
    EXPECT_LT(predict_device(rates, load), 51e-3);
}

TEST(HashModel, SmallCallsAreTheCpus) {
    const std::vector<std::byte> data = pattern_message(100'000);
    const Choice choice = choose(Algorithm::md5, Pieces(data, 4096), {});
    EXPECT_EQ(choice.processor, Processor::cpu);
    EXPECT_EQ(choice.predicted, 0);
}

TEST(HashModel, AGpuThatIsNotThereIsSaid) {
    if (has_device()) GTEST_SKIP() << "there is a GPU";
    const std::vector<std::byte> data = pattern_message(100);
    std::vector<u8> digest(32);
    std::vector<u64> bitmap(2);
    const Options options = {1, Processor::gpu};
    EXPECT_EQ(hash_one(Algorithm::blake3, data, digest, options), Errc::no_device);
    EXPECT_EQ(match_windows({Algorithm::md5, 20, 1}, data, 4, bitmap, options), Errc::no_device);
    EXPECT_EQ(hash_direct(Algorithm::sha256, data, digest, 10, options), Errc::no_device);
}

TEST(HashModel, ACallTellsItsStages) {
    const std::vector<std::byte> data = pattern_message(1'000'000);
    std::vector<u8> digests(245 * 16);
    Stages stages;
    ASSERT_EQ(hash_pieces(Algorithm::md5, data, 4096, digests, {1, Processor::cpu}, &stages),
              Errc::ok);
    EXPECT_GT(stages.total, 0);
    EXPECT_EQ(stages.total, stages.kernel);
    EXPECT_EQ(stages.processor, Processor::cpu);
    EXPECT_EQ(stages.note, nullptr);
}

}  // namespace
}  // namespace warren::hash
