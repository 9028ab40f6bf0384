// SPDX-License-Identifier: Apache-2.0
// A disk for tests with failing allocations: it forwards everything to a disk in memory, whose own
// allocations never fail.
//
// Invariant: allocations of the disk below are not counted.
#pragma once

#include "tests/support/failing_allocations.hpp"
#include "tests/support/passing_disk.hpp"

namespace warren {

class UncountedDisk final : public PassingDisk {
 public:
    using PassingDisk::PassingDisk;
    Errc read(u64 offset, std::span<std::byte> target) override {
        const UncountedAllocations uncounted;
        return below().read(offset, target);
    }
    Errc write(u64 offset, std::span<const std::byte> source) override {
        const UncountedAllocations uncounted;
        return below().write(offset, source);
    }
    Errc discard(u64 offset, u64 length_bytes) override {
        const UncountedAllocations uncounted;
        return below().discard(offset, length_bytes);
    }
};

}  // namespace warren
