// SPDX-License-Identifier: Apache-2.0
// Multi-buffer hashing with AVX-512. Headers of the standard library must come first: what they
// define must be compiled for every processor, because the linker may use it in the rest of the
// program.
//
// Invariant: nothing here runs before lanes.cpp has checked the processor.
#if defined(__x86_64__)

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "warren/hash.hpp"

#include <immintrin.h>

// g++ 12 warns about uninitialized vectors in its own intrinsics (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
// g++ 12 does not define the macros of a target that a pragma selects.
#define WARREN_HASH_AVX2 1
#define WARREN_HASH_AVX512 1
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))), \
                             apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")
#endif

#include "hash/lanes_body.hpp"

namespace warren::hash {

extern const LaneSet lanes_16;
const LaneSet lanes_16 = make_lane_set<16>("16 lanes (AVX-512)");

}  // namespace warren::hash

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
