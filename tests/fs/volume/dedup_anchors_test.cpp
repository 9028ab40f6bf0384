// SPDX-License-Identifier: Apache-2.0
// The anchors of deduplication: a run of eight blocks has one wherever it lies, and few blocks are
// hashed.
#include "fs/volume/dedup_anchors.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/fs/volume/sharing_volume.hpp"
#include "tests/support/seed.hpp"

namespace warren::dedup_anchors_test {
namespace {

constexpr u64 run_blocks = 8;

std::vector<u64> anchors_of(std::span<const std::byte> piece) {
    std::array<u32, anchored_blocks_max> anchors;
    const u64 count = find_anchors(piece, anchors);
    return {anchors.begin(), anchors.begin() + static_cast<i64>(count)};
}

/// The anchors of contents that come in pieces of so many blocks, the first in one of `first`.
std::vector<u64> anchors_in_pieces(const Bytes& bytes, u64 first, u64 blocks) {
    std::vector<u64> all;
    for (u64 at = 0, length = first * block_bytes; at < bytes.size();
         at += length, length = blocks * block_bytes)
        for (const u64 anchor :
             anchors_of(std::span(bytes).subspan(at, std::min(length, bytes.size() - at))))
            all.push_back(at / block_bytes + anchor);
    return all;
}

void put_run(const Bytes& run, Bytes& bytes, u64 first) {
    std::ranges::copy(run, bytes.begin() + static_cast<i64>(first * block_bytes));
}

/// The file that holds a run was read or written in other pieces than those that are written now.
TEST(DedupAnchors, ARunHasAnAnchorInCommonWhereverItLies) {
    const Seed seed;
    Random random(seed.value());
    for (u64 round = 0; round < 200 * test_load(); ++round) {
        Bytes held = random_bytes(random, 40 * block_bytes);
        Bytes written = random_bytes(random, 40 * block_bytes);
        Bytes run = random_bytes(random, run_blocks * block_bytes);
        // Some of its blocks may be equal, and some zeros.
        for (u64 i = 0; i < run_blocks; ++i) {
            if (random.one_in(4)) put_run(Bytes(run.data(), &run[block_bytes]), run, i);
            if (random.one_in(6)) put_run(Bytes(block_bytes), run, i);
        }
        put_run(random_bytes(random, block_bytes), run, random.below(run_blocks));
        const u64 there = random.below(33);
        const u64 here = random.below(33);
        put_run(run, held, there);
        put_run(run, written, here);
        const std::vector<u64> known =
            anchors_in_pieces(held, 1 + random.below(20), 1 + random.below(64));
        const std::vector<u64> asked = anchors_of(written);
        u64 common = 0;
        for (u64 i = 0; i < run_blocks; ++i)
            if (std::ranges::count(known, there + i) > 0 && std::ranges::count(asked, here + i) > 0)
                ++common;
        EXPECT_GT(common, 0u) << "round " << round << ", from " << there << " to " << here;
    }
}

TEST(DedupAnchors, FewBlocksAreAnchors) {
    Random random(7);
    const u64 count = anchors_of(random_bytes(random, anchored_blocks_max * block_bytes)).size();
    EXPECT_GE(count, anchored_blocks_max / run_blocks);
    EXPECT_LT(count, anchors_among(anchored_blocks_max) * 3 / 2);
}

TEST(DedupAnchors, EqualBlocksAreAnchorsTogetherAndZerosAreNone) {
    const Bytes equal(20 * block_bytes, std::byte{1});
    EXPECT_EQ(anchors_of(equal).size(), 20u);
    EXPECT_EQ(anchors_of(Bytes(20 * block_bytes)).size(), 0u);
    Bytes bytes(20 * block_bytes);
    bytes[9 * block_bytes] = std::byte{1};
    EXPECT_EQ(anchors_of(bytes), std::vector<u64>{9});
}

TEST(DedupAnchors, AShortPieceHasOneAndAPartOfABlockIsOne) {
    Random random(7);
    EXPECT_TRUE(anchors_of({}).empty());
    for (u64 blocks = 1; blocks < run_blocks; ++blocks) {
        const Bytes bytes = random_bytes(random, blocks * block_bytes);
        EXPECT_GE(anchors_of(bytes).size(), 1u);
    }
    const Bytes bytes = random_bytes(random, 3 * block_bytes + 1);
    EXPECT_EQ(anchors_of(bytes).back(), 3u);
}

}  // namespace
}  // namespace warren::dedup_anchors_test
