// SPDX-License-Identifier: Apache-2.0
// Multi-buffer hashing with AVX2. Headers of the standard library must come first: what they define
// must be compiled for every processor, because the linker may use it in the rest of the program.
//
// Invariant: nothing here runs before lanes.cpp has checked the processor.
#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "warren/hash.hpp"

#define WARREN_HASH_AVX2 1
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif

#include "hash/lanes_body.hpp"

namespace warren::hash {

extern const LaneSet lanes_8;
const LaneSet lanes_8 = make_lane_set<8>("8 lanes (AVX2)");

}  // namespace warren::hash

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
