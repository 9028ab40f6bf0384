// SPDX-License-Identifier: Apache-2.0
// A small deterministic generator: the seed alone determines a test or a simulation. The algorithm
// is splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA
// 2014).
#pragma once

#include "base/host_device.hpp"
#include "warren/types.hpp"

namespace warren {

class Random {
 public:
    WARREN_HD constexpr explicit Random(u64 seed) : state_(seed) {}

    /// The next 64 random bits.
    WARREN_HD constexpr u64 next() {
        state_ += 0x9e3779b97f4a7c15u;
        u64 z = state_;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }

    /// A number in [0, bound). Requires: bound > 0. The bias is below bound / 2^64.
    WARREN_HD constexpr u64 below(u64 bound) { return next() % bound; }

    /// True in one of `odds` calls on average.
    WARREN_HD constexpr bool one_in(u64 odds) { return below(odds) == 0; }

 private:
    u64 state_;
};

}  // namespace warren
