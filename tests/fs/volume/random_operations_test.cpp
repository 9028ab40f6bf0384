// SPDX-License-Identifier: Apache-2.0
// Random operations on a volume, each answer compared with a model file system: over both block
// maps, with names whose hashes collide, with the volume closed, checked and opened again in
// between.
#include "tests/support/random_operations.hpp"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/support/memory_volume.hpp"
#include "tests/support/seed.hpp"

namespace warren::random_operations_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// Runs until the time is over or a check fails; returns the number of operations.
u64 run_random(MemoryVolume& volume, u64 seed, milliseconds time, const RandomPlan& plan = {}) {
    const auto end = steady_clock::now() + time;
    Random random(seed + 1);
    RandomOperations driver(*volume, seed, plan);
    u64 operations = 0;
    while (!testing::Test::HasFailure() && steady_clock::now() < end) {
        const u64 count = 200 + random.below(1500);
        if (!driver.run(count)) break;
        operations += count;
        const u64 next = random.below(5);
        if (next == 0) driver.compare();
        if (next > 1) continue;
        if (random.one_in(3)) driver.let_all_go();
        if (next == 0) {
            volume.close_and_check();
        } else {
            volume.close();
        }
        volume.open();
        if (!volume.is_open()) break;
        driver.set_volume(*volume);
        if (next == 1) driver.compare();
    }
    driver.let_all_go();
    driver.compare();
    volume.close_and_check();
    return operations;
}

milliseconds some_time() {
    return milliseconds(4000 * test_load());
}

TEST(RandomOperations, agreeWithTheModelOverTheIdentityMap) {
    const Seed seed;
    MemoryVolume volume(512 * mib, {.workers = 2});
    EXPECT_GT(run_random(volume, seed.value(), some_time()), 0u);
}

TEST(RandomOperations, agreeWithTheModelOverTheHeadsMap) {
    const Seed seed;
    MemoryVolume volume(512 * mib, {.workers = 2, .meta_buffer_bytes = small_meta_buffer});
    EXPECT_GT(run_random(volume, seed.value(), some_time()), 0u);
}

TEST(RandomOperations, agreeWithTheModelInASmallVolume) {
    const Seed seed;
    MemoryVolume volume(16 * mib, {.workers = 2});
    RandomPlan plan;
    plan.entries_max = 600;
    plan.large_files = false;
    EXPECT_GT(run_random(volume, seed.value(), some_time() / 2, plan), 0u);
}

TEST(RandomOperations, agreeWithTheModelWhenHashesCollide) {
    const Seed seed;
    constexpr u64 three_bits = u64{1} | u64{1} << 30 | u64{1} << 54;
    MemoryVolume volume(512 * mib, {.workers = 2}, three_bits);
    EXPECT_GT(run_random(volume, seed.value(), some_time() / 2), 0u);
}

TEST(RandomOperations, agreeOnNamesAloneWithMany) {
    const Seed seed;
    MemoryVolume volume(512 * mib, {.workers = 2});
    RandomPlan plan;
    plan.large_files = false;
    plan.errors = false;
    plan.entries_max = 20'000;
    EXPECT_GT(run_random(volume, seed.value(), some_time() / 2, plan), 0u);
}

TEST(RandomOperationsLong, aMillionAgreeWithTheModel) {
    const Seed seed;
    for (const u64 map : block_maps) {
        SCOPED_TRACE(map);
        u64 done = 0;
        for (u64 round = 0; done < 500'000 && !HasFailure(); ++round) {
            MemoryVolume volume(512 * mib, {.workers = 2, .meta_buffer_bytes = map});
            done += run_random(volume, seed.part(round), milliseconds(60'000));
        }
    }
}

}  // namespace
}  // namespace warren::random_operations_test
