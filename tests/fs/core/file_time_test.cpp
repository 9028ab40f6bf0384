// SPDX-License-Identifier: Apache-2.0
// Times at, within and beyond the limits of the range that a volume can store.
#include "base/file_time.hpp"

#include <gtest/gtest.h>

#include "base/random.hpp"
#include "tests/support/seed.hpp"

namespace warren::file_time_test {
namespace {

constexpr i64 last = 9'223'372'036;  // whole seconds in 2^63 - 1 nanoseconds

TEST(FileTime, WithinItsYearsAsItIs) {
    EXPECT_EQ(file_time(0, 0), 0);
    EXPECT_EQ(file_time(1, 5), 1'000'000'005);
    EXPECT_EQ(file_time(-1, 999'999'999), -1);
    EXPECT_EQ(file_time(last - 1, 999'999'999), last * file_time_second - 1);
    EXPECT_EQ(file_time(-last, 0), -last * file_time_second);
}

TEST(FileTime, BeyondThemTheNearest) {
    for (const i64 seconds : {last, last + 1, i64{16'725'225'600}, INT64_MAX}) {
        EXPECT_EQ(file_time(seconds, 999'999'999), last * file_time_second) << seconds;
        EXPECT_EQ(file_time(-seconds, 999'999'999), -last * file_time_second) << seconds;
    }
    EXPECT_EQ(file_time(INT64_MIN, 0), -last * file_time_second);
}

TEST(FileTime, ThereAndBack) {
    const Seed seed;
    Random random(seed.value());
    for (u32 i = 0; i < 10'000; ++i) {
        const i64 seconds = static_cast<i64>(random.below(2 * last - 1)) - last + 1;
        const i64 rest = static_cast<i64>(random.below(1'000'000'000));
        const timespec time = to_timespec(file_time(seconds, rest));
        ASSERT_EQ(time.tv_sec, seconds);
        ASSERT_EQ(time.tv_nsec, rest);
    }
}

}  // namespace
}  // namespace warren::file_time_test
