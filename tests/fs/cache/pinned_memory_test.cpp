// SPDX-License-Identifier: Apache-2.0
// Pinned memory for extents: no two owners share any, areas are pinned once and within the limit,
// free neighbours become one again, and where nothing can be pinned there is other memory.
#include "fs/cache/pinned_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "tests/support/seed.hpp"

namespace warren::pinned_memory_test {
namespace {

constexpr u64 longest = 512;

/// What was pinned, and is until the memory is gone.
struct Pins {
    std::vector<std::pair<std::byte*, u64>> ranges;
    u64 blocks = 0;
    u64 live = 0;
    u64 asked = 0;
    bool refuses = false;

    PinRange function() {
        return [this](void* at, u64 bytes) -> std::shared_ptr<void> {
            ++asked;
            if (refuses) return nullptr;
            auto* const begin = static_cast<std::byte*>(at);
            for (const auto& [other, length] : ranges)
                EXPECT_TRUE(begin + bytes <= other || other + length <= begin);
            ranges.push_back({begin, bytes});
            blocks += bytes / format::block_size;
            ++live;
            return {at, [this](void*) { --live; }};
        };
    }
    /// Whether the blocks lie in one pinned range.
    bool have(const format::Block* memory, u64 count) const {
        const auto* const begin = reinterpret_cast<const std::byte*>(memory);
        return std::ranges::any_of(ranges, [&](const auto& one) {
            return begin >= one.first &&
                   begin + count * format::block_size <= one.first + one.second;
        });
    }
};

TEST(PinnedMemory, sharesNothingAndPinsNoMoreThanItsLimit) {
    const Seed seed;
    Random random(seed.value());
    constexpr u64 limit = 40'000;
    Pins pins;
    {
        PinnedMemory memory(limit, longest, pins.function());
        EXPECT_EQ(pins.blocks, 0u);  // nothing before it is needed
        struct Taken {
            format::Block* at;
            u64 blocks;
        };
        std::vector<Taken> taken;
        u64 out = 0;
        const auto give_back = [&](u64 which) {
            for (u64 b = 0; b < taken[which].blocks; ++b)
                ASSERT_EQ(taken[which].at[b].words[b % 512], taken[which].blocks) << "shared";
            memory.give_back(taken[which].at, taken[which].blocks);
            out -= taken[which].blocks;
            taken[which] = taken.back();
            taken.pop_back();
        };
        for (int i = 0; i < 3000; ++i) {
            const u64 blocks = 1 + random.below(i / 300 % 2 == 0 ? 12 : longest);
            while (out + blocks > limit)
                give_back(random.below(taken.size()));
            taken.push_back({memory.take(blocks), blocks});
            out += blocks;
            ASSERT_NE(taken.back().at, nullptr);
            for (u64 b = 0; b < blocks; ++b)
                taken.back().at[b].words[b % 512] = blocks;
            ASSERT_EQ(memory.is_pinned(taken.back().at), pins.have(taken.back().at, blocks));
        }
        EXPECT_GE(pins.blocks, limit);
        EXPECT_LT(pins.blocks, limit + longest);
        while (!taken.empty())
            give_back(random.below(taken.size()));
        // Everything is in pieces of the greatest length again.
        for (u64 left = pins.blocks; left > 0; left -= longest) {
            taken.push_back({memory.take(longest), longest});
            ASSERT_TRUE(memory.is_pinned(taken.back().at));
        }
        format::Block* const other = memory.take(1);
        EXPECT_FALSE(memory.is_pinned(other));
        memory.give_back(other, 1);
        EXPECT_EQ(pins.live, pins.ranges.size());
    }
    EXPECT_EQ(pins.live, 0u);
}

TEST(PinnedMemory, givesOtherMemoryWhereNoneCanBePinned) {
    Pins pins;
    pins.refuses = true;
    PinnedMemory memory(1000, longest, pins.function());
    const auto is_next_pinned = [&] {
        format::Block* const block = memory.take(longest);
        EXPECT_NE(block, nullptr);
        block[longest - 1].words[0] = 1;
        const bool is_pinned = memory.is_pinned(block);
        memory.give_back(block, longest);
        return is_pinned;
    };
    EXPECT_FALSE(is_next_pinned());
    pins.refuses = false;
    // It asks again later, not at each call.
    u64 calls = 1;
    for (; !is_next_pinned(); ++calls)
        ASSERT_LT(calls, 100u);
    EXPECT_GT(calls, 10u);
    EXPECT_EQ(pins.asked, 2u);
}

}  // namespace
}  // namespace warren::pinned_memory_test
