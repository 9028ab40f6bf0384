// SPDX-License-Identifier: Apache-2.0
// One number names a random test. It is new in every run, so that every run tries something else,
// and WARREN_SEED gives it back to repeat one.
//
// Invariant: the seed is on the screen before the test does anything with it, so that a crash and a
// hang name theirs too.
#pragma once

#include <gtest/gtest.h>

#include "warren/types.hpp"

namespace warren {

/// The seed of the running test; printed once here and with every failure while this lives.
class Seed {
 public:
    Seed();
    u64 value() const { return value_; }
    /// A seed of its own for part `index` of the test.
    u64 part(u64 index) const;

 private:
    u64 value_;
    testing::ScopedTrace trace_;
};

/// How many operations a random test that counts them runs: WARREN_OPERATIONS, or `otherwise`.
u64 test_operations(u64 otherwise);

/// By what a random test multiplies its work: WARREN_LOAD, 1 if that is not set.
u64 test_load();

}  // namespace warren
