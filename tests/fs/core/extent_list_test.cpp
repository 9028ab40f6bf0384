// SPDX-License-Identifier: Apache-2.0
// Lists of extents are compared with a model that stores each block by itself: its address and
// whether it was written. The list must say the same of every block, be sorted, and have no two
// neighbours that could be merged.
#include "fs/core/extent_list.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/support/lockstep_team.hpp"
#include "tests/support/seed.hpp"

namespace warren::core::extent_list_test {
namespace {

using format::BlockPointer;
using format::extent_unwritten;

constexpr u64 file_blocks = 400;

Extent make_extent(u64 file_block, u64 place_block, u32 length, u32 flags = 0) {
    return {file_block, BlockPointer::to(place_block * format::block_size), length, flags};
}

struct Cell {
    u64 place = 0;  // 0 for a hole
    u32 flags = 0;
    friend bool operator==(const Cell&, const Cell&) = default;
};

class Model {
 public:
    Model() : cells_(file_blocks) {}

    void replace(u64 begin, u64 end, const Extent* with) {
        for (u64 b = begin; b < end; ++b) {
            cells_[b] = with == nullptr ? Cell{} : Cell{place_at(*with, b), with->flags};
        }
    }
    const Cell& at(u64 block) const { return cells_[block]; }

 private:
    std::vector<Cell> cells_;
};

struct Array {
    std::vector<Extent> extents;
    ExtentList list;

    explicit Array(u32 max) : extents(max) { list = {extents.data(), 0, max}; }
};

void expect_sound(const ExtentList& list) {
    for (u32 i = 0; i < list.max; ++i) {
        const Extent& extent = list.at[i];
        if (i >= list.count) {
            ASSERT_TRUE(extent.length == 0 && extent.start.raw == 0) << "rest at " << i;
            continue;
        }
        ASSERT_GT(extent.length, 0u);
        ASSERT_TRUE(extent.start.is_valid());
        if (i == 0) continue;
        ASSERT_LE(end_of(list.at[i - 1]), extent.file_block);
        ASSERT_FALSE(can_merge(list.at[i - 1], extent)) << "at " << i;
    }
}

/// What the list says about one block, found by its search function.
Cell look_up(const ExtentList& list, u64 block) {
    const u32 index = search_extents(ThreadTeam{}, list, block);
    if (index == list.count || list.at[index].file_block > block) return {};
    return {place_at(list.at[index], block), list.at[index].flags};
}

void expect_equal(const ExtentList& list, const Model& model) {
    for (u64 b = 0; b < file_blocks; ++b) {
        ASSERT_EQ(look_up(list, b), model.at(b)) << "block " << b;
    }
}

/// The runs that for_each_run() reports in [begin, end), block by block.
void expect_runs(const ExtentList& list, const Model& model, u64 begin, u64 end) {
    std::vector<u64> told;
    for_each_run(ThreadTeam{}, list, begin, end, [&](const Extent& part) {
        for (u64 block = part.file_block; block < end_of(part); ++block)
            told.push_back(place_at(part, block));
    });
    std::vector<u64> wanted;
    for (u64 b = begin; b < end; ++b) {
        if (model.at(b).place != 0) wanted.push_back(model.at(b).place);
    }
    ASSERT_EQ(told, wanted);
}

class ExtentListRandom : public testing::TestWithParam<u32> {};

TEST_P(ExtentListRandom, AgreesWithBlocks) {
    const Seed seed;
    std::mt19937_64 random(seed.part(GetParam()));
    Array array(GetParam());
    Model model;
    u32 refused = 0;
    for (u64 round = 0; round < 4000 * test_load(); ++round) {
        const u64 begin = random() % (file_blocks - 1);
        u64 end = begin + 1 + random() % (random() % 4 == 0 ? 60 : 4);
        if (end > file_blocks) end = file_blocks;
        const auto length = static_cast<u32>(end - begin);
        // Half of the time addresses grow along with file blocks, so many extents can be merged.
        const u64 place = random() % 2 == 0 ? 1000 + begin : 5000 + random() % 5000;
        const u32 flags = random() % 3 == 0 ? extent_unwritten : 0;
        const Extent extent = make_extent(begin, place, length, flags);
        const Extent* with = random() % 3 == 0 ? nullptr : &extent;
        const u32 count = count_after_replace(array.list, begin, end, with);
        if (count > array.list.max) {
            ++refused;
            continue;
        }
        expect_runs(array.list, model, begin, end);
        replace_range(array.list, begin, end, with);
        model.replace(begin, end, with);
        ASSERT_EQ(array.list.count, count);
        expect_sound(array.list);
        expect_equal(array.list, model);
        if (HasFatalFailure()) return;
    }
    if (GetParam() <= 20) {
        EXPECT_GT(refused, 0u) << "the list was never full";
    }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ExtentListRandom, testing::Values(2, 5, 20, 168));

TEST(ExtentList, AppendsStayOneExtent) {
    Array array(5);
    for (u32 b = 0; b < 1000; ++b) {
        const Extent extent = make_extent(b, 77 + b, 1);
        replace_range(array.list, b, b + 1, &extent);
    }
    ASSERT_EQ(array.list.count, 1u);
    EXPECT_EQ(array.list.at[0].length, 1000u);
}

TEST(ExtentList, WritingAnUnwrittenRunInOrderNeedsOneMore) {
    Array array(3);
    const Extent whole = make_extent(10, 500, 100, extent_unwritten);
    replace_range(array.list, 10, 110, &whole);
    for (u32 b = 10; b < 110; b += 5) {
        const Extent written = make_extent(b, 490 + b, 5);
        replace_range(array.list, b, b + 5, &written);
        ASSERT_LE(array.list.count, 2u);
    }
    ASSERT_EQ(array.list.count, 1u);
    EXPECT_EQ(array.list.at[0].flags, 0u);
}

TEST(ExtentList, NoExtentExceedsTheMaximumLength) {
    Array array(5);
    const Extent first = make_extent(0, 1, format::extent_length_max - 1);
    replace_range(array.list, 0, first.length, &first);
    const u64 end = end_of(first);
    const Extent fits = make_extent(end, 1 + end, 1);
    replace_range(array.list, end, end + 1, &fits);
    EXPECT_EQ(array.list.count, 1u);
    const Extent more = make_extent(end + 1, 2 + end, 1);
    replace_range(array.list, end + 1, end + 2, &more);
    ASSERT_EQ(array.list.count, 2u);
    EXPECT_EQ(array.list.at[0].length, format::extent_length_max);
}

TEST(ExtentList, TeamsFindTheSame) {
    Array array(168);
    for (u32 i = 0; i < 168; ++i) {
        const Extent extent = make_extent(3 * i + 5, 1000 + 10 * i, 2);
        replace_range(array.list, 3 * i + 5, 3 * i + 7, &extent);
    }
    Lockstep<4> lanes;
    for (u32 count = 0; count <= 168; count += 7) {
        const ExtentList list{array.list.at, count, 168};
        for (u64 block = 0; block < 3 * 168 + 10; ++block) {
            const u32 alone = search_extents(ThreadTeam{}, list, block);
            const u32 together = lanes.run(
                [&](const LockstepTeam<4>& team) { return search_extents(team, list, block); });
            ASSERT_EQ(together, alone) << "block " << block << " of " << count;
        }
    }
}

}  // namespace
}  // namespace warren::core::extent_list_test
