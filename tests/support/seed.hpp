// SPDX-License-Identifier: Apache-2.0
// One number determines a random test. Each run uses a new one, so that runs differ, and
// WARREN_SEED repeats a run.
//
// Invariant: the seed is printed before the test uses it, so that it is known after a crash or a
// hang.
#pragma once

#include <gtest/gtest.h>

#include "warren/types.hpp"

namespace warren {

/// The seed of the running test; printed once here, and with each failure while this object exists.
class Seed {
 public:
    Seed();
    u64 value() const { return value_; }
    /// The seed for part `index` of the test.
    u64 part(u64 index) const;

 private:
    u64 value_;
    testing::ScopedTrace trace_;
};

/// The number of operations for a random test: WARREN_OPERATIONS, or `otherwise`.
u64 test_operations(u64 otherwise);

/// The factor for the work of random tests: WARREN_LOAD, by default 1.
u64 test_load();

}  // namespace warren
