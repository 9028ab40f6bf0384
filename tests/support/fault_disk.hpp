// SPDX-License-Identifier: Apache-2.0
// A disk with injected faults: tests repeat an operation for each of its I/Os and let that one
// fail, so that every error path is exercised.
//
// Invariant: an I/O that is not selected to fail is forwarded unchanged. A discard is a hint: it is
// never counted and never fails.
#pragma once

#include <mutex>

#include "tests/support/passing_disk.hpp"

namespace warren {

/// Which I/Os are counted and which of them fail. Counting starts when the plan is set.
struct FaultPlan {
    bool reads = true;
    bool writes = true;
    bool flushes = true;
    u64 nth = 0;           // the first to fail, counting from 1; 0: none
    bool is_once = false;  // only that one fails, else all from it on
    bool is_torn = false;  // a failing write still writes the first half of its bytes
};

class FaultDisk final : public PassingDisk {
 public:
    using PassingDisk::PassingDisk;

    Errc read(u64 offset, std::span<std::byte> target) override;
    Errc write(u64 offset, std::span<const std::byte> source) override;
    Errc flush() override;

    /// Selects the failures from now on and resets the counts.
    void set_plan(const FaultPlan& plan);
    /// The number of I/Os of the plan's kinds since the plan was set.
    u64 count() const;
    /// The number of failed I/Os since the plan was set.
    u64 failed_count() const;

 private:
    bool fails_now(bool is_counted);

    mutable std::mutex mutex_;  // guards the members below
    FaultPlan plan_;
    u64 count_ = 0;
    u64 failed_count_ = 0;
};

}  // namespace warren
