// SPDX-License-Identifier: Apache-2.0
// The index of deduplication, and the digests of blocks that are its keys.
#include "fs/volume/dedup_index.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <cstring>
#include <vector>

#include "tests/fs/volume/sharing_volume.hpp"
#include "tests/support/sanitized.hpp"

namespace warren::dedup_index_test {
namespace {

DedupDigest digest_of(u64 number) {
    DedupDigest digest;
    for (u64 i = 0; i < 4; ++i)
        digest.words[i] = (number + 1) * 0x9e3779b97f4a7c15 * (2 * i + 1) + i;
    return digest;
}

TEST(DedupIndex, ForgetsButDoesNotInvent) {
    constexpr u64 entries = 1024;
    DedupIndex index(entries * 16);
    ASSERT_TRUE(index.is_open());
    EXPECT_EQ(index.bytes(), entries * 16);
    EXPECT_EQ(index.entries(), entries);
    FileBlock found;
    EXPECT_FALSE(index.find(digest_of(0), found));
    const u64 greatest_inode = (u64{1} << 36) - 1;
    const u64 greatest_block = (u64{1} << 34) - 1;
    for (u64 i = 0; i < 4 * entries; ++i)
        index.put(digest_of(i), {greatest_inode - i, greatest_block - i});
    u64 known = 0;
    for (u64 i = 0; i < 4 * entries; ++i) {
        if (!index.find(digest_of(i), found)) continue;
        ++known;
        EXPECT_EQ(found.inode, greatest_inode - i);
        EXPECT_EQ(found.block, greatest_block - i);
    }
    EXPECT_GT(known, entries * 9 / 10);
    EXPECT_LE(known, entries);
    for (u64 i = 0; i < entries; ++i)
        EXPECT_FALSE(index.find(digest_of(10 * entries + i), found));
    index.put(digest_of(5), {greatest_inode + 1, 0});
    index.put(digest_of(5), {0, greatest_block + 1});
    if (index.find(digest_of(5), found)) {
        EXPECT_EQ(found.inode, greatest_inode - 5);
    }
    index.put(digest_of(5), {7, 8});
    ASSERT_TRUE(index.find(digest_of(5), found));
    EXPECT_EQ(found.inode, 7u);
    EXPECT_EQ(found.block, 8u);
}

TEST(DedupIndex, PutIfFreeTakesNoPlace) {
    constexpr u64 entries = 64;
    DedupIndex index(entries * 16);
    ASSERT_TRUE(index.is_open());
    FileBlock found;
    for (u64 i = 0; i < 4 * entries; ++i)
        index.put_if_free(digest_of(i), {100 + i, i});
    std::vector<u64> known;
    for (u64 i = 0; i < 4 * entries; ++i)
        if (index.find(digest_of(i), found)) known.push_back(i);
    EXPECT_GT(known.size(), entries / 2);
    EXPECT_LE(known.size(), entries);
    for (u64 i = 0; i < 8 * entries; ++i)
        index.put_if_free(digest_of(i), {7, 8});
    for (const u64 i : known) {
        ASSERT_TRUE(index.find(digest_of(i), found));
        EXPECT_EQ(found.inode, 100 + i);
        EXPECT_EQ(found.block, i);
    }
}

TEST(DedupIndex, EachPageIsFaultedInOnce) {
    constexpr u64 pages = 512;
    DedupIndex index(pages * 4 * kib);
    ASSERT_TRUE(index.is_open());
    const auto faults = [] {
        rusage usage{};
        EXPECT_EQ(getrusage(RUSAGE_THREAD, &usage), 0);
        return static_cast<u64>(usage.ru_minflt);
    };
    const u64 before = faults();
    FileBlock found;
    for (u64 i = 0; i < 8 * pages; ++i) {
        if (!index.find(digest_of(i), found)) index.put(digest_of(i), {7, i});
    }
    const u64 taken = faults() - before;
    // A sanitizer has pages of its own.
    EXPECT_TRUE(taken < pages * 5 / 4 || is_sanitized)
        << taken << ": a page that is read first is replaced later";
}

TEST(DedupHash, DependsOnTheKey) {
    const u64 keys[][2] = {{1, 2}, {2, 1}};
    Random random(7);
    const Bytes bytes = random_bytes(random, 3 * block_bytes);
    const std::array<hash::Bytes, 3> blocks = {std::span(bytes).first(block_bytes),
                                               std::span(bytes).subspan(block_bytes, block_bytes),
                                               std::span(bytes).subspan(2 * block_bytes, 100)};
    std::array<DedupDigest, 3> digests[2];
    for (u64 i = 0; i < 2; ++i)
        DedupHash(keys[i]).digest(blocks, digests[i]);
    for (u64 i = 0; i < 3; ++i)
        EXPECT_NE(std::memcmp(&digests[0][i], &digests[1][i], sizeof(DedupDigest)), 0);
    DedupDigest alone[1];
    DedupHash(keys[0]).digest(std::span(blocks).last(1), alone);
    EXPECT_EQ(std::memcmp(&digests[0][2], &alone[0], sizeof(DedupDigest)), 0);
}

}  // namespace
}  // namespace warren::dedup_index_test
