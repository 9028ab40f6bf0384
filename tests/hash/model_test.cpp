// SPDX-License-Identifier: Apache-2.0
// The model of the five stages against the paper's own example, and the choice that it makes.
#include "hash/model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "hash/choice.hpp"
#include "hash/device.hpp"
#include "tests/hash/messages.hpp"

namespace warren::hash::model_test {
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

TEST(HashModel, OverlapLeavesTheSlowestStage) {
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

/// A simulated machine: the time of each stage, and the slowdown of copies to the GPU and the
/// filling of slots when both run.
struct Machine {
    double fill;    // bytes a second; 0: nothing to fill
    double gather;  // of a list
    double bus;
    double kernel;
    double out;
    double finish;
    double waking_seconds;  // of the threads that fill
    double call_seconds;
    double startup_seconds;
};

/// Simulates a call through three slots, step by step: the calling thread fills and finishes, each
/// other stage has a queue of its own.
Sample play(const Machine& machine, u64 bytes, u64 output_bytes, double fill_rate) {
    constexpr u64 slot_bytes = 32 * mib;
    constexpr u64 slots = 3;
    const u64 turns = (bytes + slot_bytes - 1) / slot_bytes;
    const double turn_output = static_cast<double>(output_bytes) / static_cast<double>(turns);
    Stages busy;
    const double waking = fill_rate == 0 ? 0 : machine.waking_seconds;
    double host = machine.call_seconds + waking;
    double bus = 0;
    double kernel = 0;
    double out = 0;
    busy.copy_in = busy.staging = waking;
    std::vector<double> out_done(turns);
    const auto finish = [&](u64 turn) {
        const double took = turn_output / machine.finish;
        host = std::max(host, out_done[turn]) + took;
        busy.finish += took;
    };
    for (u64 turn = 0; turn < turns; ++turn) {
        const auto part = static_cast<double>(std::min(slot_bytes, bytes - turn * slot_bytes));
        if (turn >= slots) finish(turn - slots);
        const double filling = fill_rate == 0 ? 0 : part / fill_rate;
        const double copying = part / machine.bus * (fill_rate == 0 ? 1.0 : 1.2);
        host += filling;
        bus = std::max(bus, host) + copying;
        kernel = std::max(kernel, bus) + part / machine.kernel;
        out = std::max(out, kernel) + turn_output / machine.out;
        out_done[turn] = out;
        busy.copy_in += filling + copying;
        busy.staging += filling;
        busy.kernel += part / machine.kernel;
        busy.copy_out += turn_output / machine.out;
    }
    for (u64 turn = turns > slots ? turns - slots : 0; turn < turns; ++turn)
        finish(turn);
    busy.total = host;
    return {bytes, output_bytes, busy};
}

Calibration calibrate(const Machine& machine) {
    constexpr u64 large = 256 * mib;
    Calibration measured;
    measured.small = play(machine, 64 * kib, 256, 0);
    measured.first_seconds = measured.small.stages.total + machine.startup_seconds;
    measured.pinned = play(machine, large / 2, large / 512, 0);
    measured.pageable = play(machine, large, large / 256, machine.fill);
    measured.shorter = play(machine, large / 4, large / 1024, machine.fill);
    measured.list = play(machine, large, large / 256, machine.gather);
    measured.outputs = play(machine, large / 8, large / 8, 0);
    return measured;
}

TEST(HashModel, RatesOfACalibrationPredictOtherCalls) {
    const Machine machines[] = {
        // Like one H200 beside 16 cores, with threads awake or asleep; a slow host; a slow bus; a
        // kernel that is the bottleneck.
        {46e9, 35e9, 55e9, 900e9, 25e9, 17e9, 0, 60e-6, 0.35},
        {46e9, 35e9, 55e9, 900e9, 25e9, 17e9, 1.5e-3, 60e-6, 0.35},
        {9e9, 4e9, 55e9, 900e9, 25e9, 3e9, 0.2e-3, 60e-6, 0.9},
        {41e9, 24e9, 12e9, 400e9, 12e9, 17e9, 0.2e-3, 100e-6, 0.2},
        {41e9, 24e9, 55e9, 20e9, 25e9, 17e9, 1e-3, 60e-6, 0.35},
    };
    for (const Machine& machine : machines) {
        const Rates rates = fit_rates(calibrate(machine));
        EXPECT_NEAR(rates.startup_seconds, machine.startup_seconds, 1e-9);
        EXPECT_NEAR(rates.copy_in, machine.bus, machine.bus * 1e-6);
        struct Kind {
            const char* name;
            double fill;
            bool is_staged;
            bool is_gathered;
        };
        const Kind kinds[] = {{"pinned", 0, false, false},
                              {"pageable", machine.fill, true, false},
                              {"list", machine.gather, true, true}};
        for (const Kind& kind : kinds) {
            for (const u64 bytes : {32 * mib, 128 * mib, 300 * mib, 2 * gib}) {
                const Sample measured = play(machine, bytes, bytes / 256, kind.fill);
                const double predicted = predict_device(rates, {.input_bytes = bytes,
                                                                .work_bytes = bytes,
                                                                .output_bytes = bytes / 256,
                                                                .slot_bytes = 32 * mib,
                                                                .is_staged = kind.is_staged,
                                                                .is_gathered = kind.is_gathered});
                std::printf("%-8s %5llu MiB: predicted %8.3f ms, measured %8.3f ms\n", kind.name,
                            static_cast<unsigned long long>(bytes / mib), predicted * 1e3,
                            measured.stages.total * 1e3);
                EXPECT_NEAR(predicted / measured.stages.total, 1, 0.15)
                    << kind.name << " " << bytes;
            }
        }
    }
}

TEST(HashModel, FillingThatIsFasterFromTheStartHasNoStart) {
    Calibration measured;
    measured.shorter = {64 * mib, 0, {.staging = 2e-3}};
    measured.pageable = {256 * mib, 0, {.staging = 9e-3}};
    const Rates rates = fit_rates(measured);
    EXPECT_EQ(rates.waking_seconds, 0);
    EXPECT_NEAR(rates.staging, 256 * mib / 9e-3, 1);
    measured.pageable.stages.staging = 2e-3;
    EXPECT_NEAR(fit_rates(measured).staging, 256 * mib / 2e-3, 1) << "no longer for more";
}

TEST(HashModel, WhatWasNotMeasuredTakesNoTime) {
    const Rates rates = fit_rates({});
    EXPECT_EQ(rates.copy_in, 0);
    EXPECT_EQ(rates.staging, 0);
    EXPECT_EQ(rates.startup_seconds, 0);
    EXPECT_EQ(predict_device(rates, paper_load), 0);
}

TEST(HashModel, TheCpuAloneAsksNoGpu) {
    EXPECT_GT(predict_on_cpu(Algorithm::md5, gib), 0);
    EXPECT_EQ(predict_on_cpu(Algorithm::md5, 0), 0);
    if (has_device()) GTEST_SKIP() << "there is a GPU";
    const Prediction prediction = predict(Algorithm::md5, gib, 4);
    EXPECT_EQ(prediction.gpu_seconds, 0);
    EXPECT_EQ(prediction.startup_seconds, 0);
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
}  // namespace warren::hash::model_test
