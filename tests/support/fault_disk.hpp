// SPDX-License-Identifier: Apache-2.0
// A disk that fails on purpose: tests run an operation once for each of its I/Os and let that one
// fail, so that no error path stays untried.
//
// Invariant: an I/O that is not chosen to fail is passed on unchanged. A discard is a hint: it is
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
    u64 nth = 0;           // the first one to fail, from 1; 0: none
    bool is_once = false;  // only that one fails, else all from it on
    bool is_torn = false;  // a failing write still writes the first half of its bytes
};

class FaultDisk final : public PassingDisk {
 public:
    using PassingDisk::PassingDisk;

    Errc read(u64 offset, std::span<std::byte> target) override;
    Errc write(u64 offset, std::span<const std::byte> source) override;
    Errc flush() override;

    /// Sets what fails from now on and starts counting at zero.
    void set_plan(const FaultPlan& plan);
    /// I/Os of the plan's sorts since the plan was set.
    u64 count() const;
    /// I/Os that were failed since the plan was set.
    u64 failed_count() const;

 private:
    bool fails_now(bool is_counted);

    mutable std::mutex mutex_;  // guards all below
    FaultPlan plan_;
    u64 count_ = 0;
    u64 failed_count_ = 0;
};

}  // namespace warren
