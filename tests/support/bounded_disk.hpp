// SPDX-License-Identifier: Apache-2.0
// Forwards everything to another disk, fails the test at an access beyond its end, and stops the
// program after so many accesses that the code under test must be in an endless loop.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

#include "tests/support/passing_disk.hpp"

namespace warren {

class BoundedDisk final : public PassingDisk {
 public:
    using PassingDisk::PassingDisk;

    Errc read(u64 offset, std::span<std::byte> target) override {
        check(offset, target.size());
        return below().read(offset, target);
    }
    Errc write(u64 offset, std::span<const std::byte> source) override {
        check(offset, source.size());
        return below().write(offset, source);
    }

 private:
    /// Operations of tests on a small volume need a few thousand accesses.
    static constexpr u64 accesses_max = 2'000'000;

    void check(u64 offset, u64 length) {
        EXPECT_TRUE(offset <= size_bytes() && length <= size_bytes() - offset) << offset;
        if (accesses_.fetch_add(1, std::memory_order_relaxed) < accesses_max) return;
        ADD_FAILURE() << "the accesses to the disk do not end";
        std::abort();
    }

    std::atomic<u64> accesses_{0};
};

}  // namespace warren
