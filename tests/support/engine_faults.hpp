// SPDX-License-Identifier: Apache-2.0
// Makes each of the calls fail in turn on which an engine with memory of its own depends, within
// each operation and the commit after it: on a GPU the calls of the CUDA runtime, without one the
// calls to an engine that stands in for it. Nothing may crash or hang. An operation that changes
// something returns an error, or the change is visible; a volume that continues works, and one that
// does not has reported it; the disk is in the state before or after the operation.
#pragma once

#include <memory>
#include <string>

#include "base/random.hpp"
#include "tests/support/operation_cases.hpp"

namespace warren {

/// Makes calls of an engine fail.
class FailingCalls {
 public:
    virtual ~FailingCalls() = default;
    /// Opens a volume that depends on these calls. Null, after failing the test, on failure.
    virtual std::unique_ptr<Volume> open(Disk& disk, const OpenOptions& options) = 0;
    /// Makes the `nth` call from now on fail, counting from 1; 0: none. Returns the number of calls
    /// since the previous call of this function.
    virtual u64 fail(u64 nth) = 0;
};

class EngineFaults {
 public:
    /// `calls` must outlive this object; `options` are used to open volumes.
    EngineFaults(FailingCalls& calls, const OpenOptions& options)
        : calls_(calls), options_(options) {}

    /// Makes one in `odds` of the calls of each operation fail; for operations that repeat their
    /// work many times, one in `many_odds`.
    void fail_all(u64 odds, u64 many_odds);

 private:
    struct Outcome {
        Errc code = Errc::ok;
        Errc synced = Errc::ok;
        bool has_failed = false;
        u64 calls = 0;
        std::string shown;
    };

    void fail_each(const OperationCase& operation, u64 odds, Random& random);
    Outcome run(const OperationCase& operation, u64 nth);

    FailingCalls& calls_;
    const OpenOptions options_;
    const OperationWay shown_by_{"Base", "cpu", {.workers = 2}};
    const OperationBase base_{shown_by_};
    u64 runs_ = 0;
};

}  // namespace warren
