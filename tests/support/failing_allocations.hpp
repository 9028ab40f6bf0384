// SPDX-License-Identifier: Apache-2.0
// Makes one memory allocation fail, wherever in the program it is made, or measures allocations, by
// replacing operator new. At most one FailingAllocation and one PeakMemory exist at a time.
//
// Invariant: an allocation made while neither exists, or by a thread with UncountedAllocations, is
// not counted and does not fail.
#pragma once

#include "warren/types.hpp"

namespace warren {

/// While it exists, allocations of all threads are counted and the `nth` fails, counting from 1.
class FailingAllocation {
 public:
    explicit FailingAllocation(u64 nth);
    ~FailingAllocation();
    FailingAllocation(const FailingAllocation&) = delete;
    FailingAllocation& operator=(const FailingAllocation&) = delete;

    u64 count() const;
    bool has_failed() const { return count() >= nth_; }

 private:
    const u64 nth_;
};

/// While it exists, measures the memory held by all threads.
class PeakMemory {
 public:
    PeakMemory();
    ~PeakMemory();
    PeakMemory(const PeakMemory&) = delete;
    PeakMemory& operator=(const PeakMemory&) = delete;

    /// The maximum number of bytes held at once, beyond what was held at the beginning.
    u64 bytes() const;
};

/// While it exists, allocations of this thread are not counted.
class UncountedAllocations {
 public:
    UncountedAllocations();
    ~UncountedAllocations();
    UncountedAllocations(const UncountedAllocations&) = delete;
    UncountedAllocations& operator=(const UncountedAllocations&) = delete;

 private:
    const bool before_;
};

}  // namespace warren
