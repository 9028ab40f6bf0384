// SPDX-License-Identifier: Apache-2.0
// Lets one after another of the calls fail on which an engine with memory of its own depends,
// within each operation and the commit behind it: on a GPU those of the CUDA runtime, without one
// the questions to an engine that plays it. Nothing crashes or hangs; a call that changes
// something returns an error, or the change is there; a volume that goes on works, one that has
// ended said so; the disk has the state before the operation or after it.
#pragma once

#include <memory>
#include <string>

#include "base/random.hpp"
#include "tests/support/operation_cases.hpp"

namespace warren {

/// The calls that are to fail.
class FailingCalls {
 public:
    virtual ~FailingCalls() = default;
    /// Opens a volume that depends on them. Null, and a failed test, if that is not possible.
    virtual std::unique_ptr<Volume> open(Disk& disk, const OpenOptions& options) = 0;
    /// Of the calls from now on the `nth` fails, from 1 on; 0: none. How many there were since the
    /// last time.
    virtual u64 fail(u64 nth) = 0;
};

class EngineFaults {
 public:
    /// `calls` outlives this; `options` are those that volumes are opened with.
    EngineFaults(FailingCalls& calls, const OpenOptions& options)
        : calls_(calls), options_(options) {}

    /// Lets one in `odds` of the calls of each operation fail; of those that do their work many
    /// times one in `many_odds`.
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
