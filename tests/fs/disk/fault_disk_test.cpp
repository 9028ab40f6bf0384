// SPDX-License-Identifier: Apache-2.0
// The failing I/O is counted exactly: tests that make the n-th one fail rely on covering every n.
#include "tests/support/fault_disk.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/memory_disk.hpp"

namespace warren::fault_disk_test {
namespace {

using Bytes = std::vector<std::byte>;

/// Writes, flushes and reads three times; returns the numbers (from 1) of the calls that failed.
std::vector<int> failures_of(FaultDisk& disk) {
    std::vector<int> failed;
    Bytes bytes(4096, std::byte{1});
    for (int i = 0; i < 9; ++i) {
        const Errc code = i % 3 == 0   ? disk.write(0, bytes)
                          : i % 3 == 1 ? disk.flush()
                                       : disk.read(0, bytes);
        if (code != Errc::ok) failed.push_back(i + 1);
        EXPECT_TRUE(code == Errc::ok || code == Errc::io);
    }
    return failed;
}

TEST(FaultDisk, failsTheChosenCall) {
    MemoryDisk memory(1 * mib);
    FaultDisk disk(memory);
    EXPECT_EQ(failures_of(disk), std::vector<int>{});
    EXPECT_EQ(disk.count(), 9u);
    for (int nth = 1; nth <= 9; ++nth) {
        disk.set_plan({.nth = static_cast<u64>(nth), .is_once = true});
        EXPECT_EQ(failures_of(disk), std::vector<int>{nth});
        EXPECT_EQ(disk.failed_count(), 1u);
    }
    disk.set_plan({.nth = 7});
    EXPECT_EQ(failures_of(disk), (std::vector<int>{7, 8, 9}));
    disk.set_plan({.writes = false, .flushes = false, .nth = 2, .is_once = true});
    EXPECT_EQ(failures_of(disk), std::vector<int>{6});
    disk.set_plan({.reads = false, .writes = false, .nth = 1});
    EXPECT_EQ(failures_of(disk), (std::vector<int>{2, 5, 8}));
    disk.set_plan({.reads = false, .flushes = false, .nth = 3});
    EXPECT_EQ(failures_of(disk), std::vector<int>{7});
    EXPECT_EQ(disk.count(), 3u);
}

TEST(FaultDisk, failedWriteLeavesNothingOrHalf) {
    MemoryDisk memory(1 * mib);
    FaultDisk disk(memory);
    const Bytes bytes(4096, std::byte{7});
    Bytes found(4096);
    disk.set_plan({.nth = 1});
    EXPECT_EQ(disk.write(0, bytes), Errc::io);
    ASSERT_EQ(memory.read(0, found), Errc::ok);
    EXPECT_EQ(found, Bytes(4096));
    disk.set_plan({.nth = 1, .is_torn = true});
    EXPECT_EQ(disk.write(0, bytes), Errc::io);
    ASSERT_EQ(memory.read(0, found), Errc::ok);
    EXPECT_EQ(found[2047], std::byte{7});
    EXPECT_EQ(found[2048], std::byte{0});
    EXPECT_EQ(disk.discard(0, 4096), Errc::ok);
    EXPECT_EQ(disk.size_bytes(), 1 * mib);
}

}  // namespace
}  // namespace warren::fault_disk_test
