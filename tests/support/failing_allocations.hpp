// SPDX-License-Identifier: Apache-2.0
// Lets one allocation of memory fail, wherever in the program it comes from, or measures them: all
// of operator new passes here. One FailingAllocation and one PeakMemory at a time.
//
// Invariant: what is allocated while none lives, or by a thread with UncountedAllocations, is not
// counted and does not fail.
#pragma once

#include "warren/types.hpp"

namespace warren {

/// While it lives, allocations of all threads are counted and the `nth` fails, from 1 on.
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

/// While it lives, what all threads hold of memory is measured.
class PeakMemory {
 public:
    PeakMemory();
    ~PeakMemory();
    PeakMemory(const PeakMemory&) = delete;
    PeakMemory& operator=(const PeakMemory&) = delete;

    /// The most bytes held at once, beyond what was held at the begin.
    u64 bytes() const;
};

/// While it lives, what this thread allocates is not counted.
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
