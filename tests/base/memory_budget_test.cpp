// SPDX-License-Identifier: Apache-2.0
// A memory that several users share: no more is taken than there is, and all comes back.
#include "base/memory_budget.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "tests/support/seed.hpp"

namespace warren::memory_budget_test {
namespace {

TEST(MemoryBudget, isSharedAndGivenBack) {
    MemoryBudget budget(100);
    {
        MemoryShare first(&budget);
        MemoryShare second(&budget);
        EXPECT_TRUE(first.grow(60));
        EXPECT_FALSE(second.grow(41));
        EXPECT_TRUE(second.grow(40));
        EXPECT_FALSE(first.grow(1));
        EXPECT_EQ(first.bytes(), 60u);
        EXPECT_EQ(budget.left(), 0u);
        first.shrink(20);
        EXPECT_EQ(first.bytes(), 40u);
        EXPECT_TRUE(second.grow(20));
        EXPECT_EQ(budget.left(), 0u);
    }
    EXPECT_EQ(budget.left(), 100u);
    MemoryShare unlimited;
    EXPECT_TRUE(unlimited.grow(~u64{0} / 2));
}

TEST(MemoryBudget, asksForIdleMemory) {
    MemoryBudget budget(100);
    std::optional<MemoryShare> idle(std::in_place, &budget);
    MemoryShare busy(&budget);
    ASSERT_TRUE(idle->grow(70));
    u32 asked = 0;
    budget.on_shortage([&] {
        ++asked;
        idle.reset();
    });
    EXPECT_TRUE(busy.grow(30));
    EXPECT_EQ(asked, 0u);
    EXPECT_TRUE(busy.grow(70));
    EXPECT_EQ(asked, 1u);
    EXPECT_FALSE(busy.grow(1));
    EXPECT_EQ(asked, 2u);
}

TEST(MemoryBudget, holdsForManyThreads) {
    const Seed seed;
    constexpr u64 all = 1000;
    MemoryBudget budget(all);
    std::atomic<u64> taken{0};
    std::vector<std::thread> threads;
    for (u32 i = 0; i < 4; ++i) {
        threads.emplace_back([&, i] {
            Random random(seed.part(i));
            for (u32 n = 0; n < 20'000; ++n) {
                const u64 bytes = random.below(600);
                MemoryShare share(&budget);
                if (!share.grow(bytes)) continue;
                EXPECT_LE(taken.fetch_add(bytes) + bytes, all);
                taken.fetch_sub(bytes);
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_EQ(budget.left(), all);
}

TEST(MemoryBudgetDeathTest, outlivesItsShares) {
    EXPECT_DEATH(
        {
            auto budget = std::make_unique<MemoryBudget>(10);
            MemoryShare share(budget.get());
            static_cast<void>(share.grow(1));
            budget.reset();
        },
        "left\\(\\) == all_");
}

}  // namespace
}  // namespace warren::memory_budget_test
