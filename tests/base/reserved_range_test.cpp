// SPDX-License-Identifier: Apache-2.0
// Which pages of a reserved range are in memory.
#include "base/reserved_range.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace warren::reserved_range_test {
namespace {

u64 page_bytes() {
    return static_cast<u64>(::sysconf(_SC_PAGESIZE));
}

/// How many pages of the range are in memory.
u64 resident_pages(const ReservedRange& range, u64 bytes) {
    std::vector<unsigned char> pages(bytes / page_bytes());
    EXPECT_EQ(::mincore(range.data(), bytes, pages.data()), 0);
    return static_cast<u64>(std::ranges::count_if(pages, [](auto page) { return page & 1; }));
}

TEST(ReservedRange, BringsMemoryBeforeItIsTouchedAndGivesItBack) {
    constexpr u64 bytes = 4 * mib;
    ReservedRange range(bytes);
    ASSERT_NE(range.data(), nullptr);
    EXPECT_EQ(resident_pages(range, bytes), 0u);
    range.populate(2 * mib);
    // None on systems without the call; more where pages are huge.
    const u64 brought = resident_pages(range, bytes);
    EXPECT_TRUE(brought == 0 || brought >= 2 * mib / page_bytes()) << brought;
    std::memset(range.data(), 1, bytes);
    range.give_back(mib);
    EXPECT_LE(resident_pages(range, bytes), mib / page_bytes());
    EXPECT_EQ(range.data()[mib - 1], std::byte{1});
    EXPECT_EQ(range.data()[mib], std::byte{0});
    range.populate(2 * mib);
    EXPECT_EQ(range.data()[2 * mib - 1], std::byte{0});
}

}  // namespace
}  // namespace warren::reserved_range_test
