// SPDX-License-Identifier: Apache-2.0
// Memory that a thread allocates ahead: memory once allocated is available, closing does not wait
// for all of it, and where no thread can run nothing is allocated.
#include "fs/engine/cuda/memory_ahead.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <utility>

#include "tests/support/failing_allocations.hpp"
#include "warren/types.hpp"

namespace warren {
namespace {

using cuda_engine::MemoryAhead;

TEST(MemoryAhead, HasEndedWhenItsOwnerEnds) {
    u64 taken = 0;
    {
        MemoryAhead ahead;
        ahead.start([&](const std::atomic<bool>& must_stop) {
            // As if memory were unlimited.
            do {
                ++taken;
            } while (!must_stop.load(std::memory_order_relaxed));
        });
    }
    EXPECT_GT(taken, 0u);
}

TEST(MemoryAhead, TakesNothingWhereThereIsNoThread) {
    for (u64 nth = 1;; ++nth) {
        u64 taken = 0;
        MemoryAhead::Take take = [&](const std::atomic<bool>&) { ++taken; };
        bool has_failed = false;
        {
            MemoryAhead ahead;
            const FailingAllocation failing(nth);
            ahead.start(std::move(take));
            has_failed = failing.has_failed();
        }
        EXPECT_EQ(taken, has_failed ? 0u : 1u);
        if (!has_failed) break;
    }
}

}  // namespace
}  // namespace warren
