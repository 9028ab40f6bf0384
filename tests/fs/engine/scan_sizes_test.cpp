// SPDX-License-Identifier: Apache-2.0
// How large a scan is expected to be, from what earlier ones have listed.
#include "fs/engine/replica/scan_sizes.hpp"

#include <gtest/gtest.h>

namespace warren::scan_sizes_test {
namespace {

constexpr u32 deep = ~u32{0};
constexpr Handle volume_root{1, 1};

TEST(ScanSizes, knowsTheWholeVolume) {
    ScanSizes sizes(volume_root.inode);
    EXPECT_EQ(sizes.estimate(volume_root, deep, 5000).items, 5000u);
    EXPECT_TRUE(sizes.estimate(volume_root, deep, 5000).is_known);
    sizes.note(volume_root, deep, 5000, 7);
    EXPECT_EQ(sizes.estimate(volume_root, deep, 6000).items, 6000u);
    EXPECT_FALSE(sizes.estimate(volume_root, 1, 5000).is_known);
}

TEST(ScanSizes, remembersDirectories) {
    ScanSizes sizes(volume_root.inode);
    const Handle some{700, 3};
    sizes.note(some, deep, 5000, 42);
    EXPECT_EQ(sizes.estimate(some, deep, 9000).items, 42u);
    EXPECT_TRUE(sizes.estimate(some, deep, 9000).is_known);
    EXPECT_FALSE(sizes.estimate(some, 1, 9000).is_known);
    EXPECT_FALSE(sizes.estimate({700, 4}, deep, 9000).is_known) << "another generation";
    EXPECT_FALSE(sizes.estimate({701, 3}, deep, 9000).is_known);
    sizes.note(some, deep, 5000, 43);
    EXPECT_EQ(sizes.estimate(some, deep, 9000).items, 43u);
}

/// Half of the volume, until directories were scanned that were not known.
TEST(ScanSizes, learnsTheShareOfOtherDirectories) {
    ScanSizes sizes(volume_root.inode);
    EXPECT_EQ(sizes.estimate({500, 1}, deep, 10'000).items, 5000u);
    sizes.note({500, 1}, deep, 10'000, 10);
    EXPECT_EQ(sizes.estimate({600, 1}, deep, 10'000).items, 10u);
    for (u64 i = 0; i < 50; ++i)
        sizes.note({2048 + i, 1}, deep, 10'000, 1000);
    EXPECT_NEAR(static_cast<double>(sizes.estimate({600, 1}, deep, 10'000).items), 1000, 10);
    for (u32 i = 0; i < 50; ++i)
        sizes.note({500, 1}, deep, 10'000, 10);  // known
    EXPECT_NEAR(static_cast<double>(sizes.estimate({600, 1}, deep, 10'000).items), 1000, 10);
}

}  // namespace
}  // namespace warren::scan_sizes_test
