// SPDX-License-Identifier: Apache-2.0
// Memory for extents: no two owners share any, and no more than the announced amount is requested
// from the system unless all of it is in use.
#include "fs/cache/extent_memory.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <vector>

#include "base/random.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/seed.hpp"

namespace warren::extent_memory_test {
namespace {

// Sanitizers take memory of their own for each page that is touched.
constexpr bool knows_own_memory = !is_sanitized;

/// Memory of this process that the system has committed, in blocks.
u64 resident_blocks() {
    std::ifstream facts("/proc/self/statm");
    u64 all = 0, resident = 0;
    facts >> all >> resident;
    return resident;
}

TEST(ExtentMemory, takesNoMoreOfTheSystemThanItsLimit) {
    const Seed seed;
    Random random(seed.value());
    constexpr u64 limit = 4096;
    constexpr u64 longest = 512;
    ExtentMemory memory(limit, longest);
    struct Taken {
        format::Block* at;
        u64 blocks;
    };
    std::vector<Taken> taken;
    u64 out = 0;
    const u64 before = resident_blocks();
    for (int i = 0; i < 3000; ++i) {
        // Long and short extents alternate, so that each finds the gaps that the other has left.
        const u64 blocks = 1 + random.below(i / 300 % 2 == 0 ? 12 : longest);
        while (out + blocks > limit) {
            const u64 which = random.below(taken.size());
            for (u64 b = 0; b < taken[which].blocks; ++b)
                ASSERT_EQ(taken[which].at[b].words[b % 512], taken[which].blocks) << "shared";
            memory.give_back(taken[which].at, taken[which].blocks);
            out -= taken[which].blocks;
            taken[which] = taken.back();
            taken.pop_back();
        }
        taken.push_back({memory.take(blocks), blocks});
        out += blocks;
        ASSERT_NE(taken.back().at, nullptr);
        for (u64 b = 0; b < blocks; ++b)
            taken.back().at[b].words[b % 512] = blocks;
        ASSERT_LE(memory.held_blocks(), limit);
        const u64 resident = i % 100 == 0 && knows_own_memory ? resident_blocks() : before;
        ASSERT_LE(resident, before + limit + 512) << "at step " << i;
    }
    for (const Taken& one : taken)
        memory.give_back(one.at, one.blocks);
}

TEST(ExtentMemory, givesMoreThanItsLimitWhenAllIsInUse) {
    ExtentMemory memory(64, 8);
    std::vector<format::Block*> taken;
    for (u64 i = 0; i < 3000; ++i) {  // more than there are slots of that length
        taken.push_back(memory.take(8));
        ASSERT_NE(taken.back(), nullptr);
        taken.back()[7].words[511] = i;
    }
    for (u64 i = 0; i < taken.size(); ++i) {
        ASSERT_EQ(taken[i][7].words[511], i);
        memory.give_back(taken[i], 8);
    }
    EXPECT_LE(memory.held_blocks(), 64u);
}

}  // namespace
}  // namespace warren::extent_memory_test
