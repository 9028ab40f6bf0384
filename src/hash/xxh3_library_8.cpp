// SPDX-License-Identifier: Apache-2.0
// xxHash compiled with AVX2. As in lanes_8.cpp, headers of the standard library come first. Nothing
// here runs before the processor has been checked.
#if defined(__x86_64__) && defined(WARREN_HASH_XXHASH)

#include <immintrin.h>

#include <cassert>
#include <cstdlib>
#include <cstring>

#include "hash/xxh3_library.hpp"

// g++ 12 does not define the macros of a target that a pragma selects, on which xxhash.h depends.
#define XXH_VECTOR 2
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif

#include "hash/xxh3_library_body.hpp"

namespace warren::hash {

extern const Xxh3Functions xxh3_functions_8;
const Xxh3Functions xxh3_functions_8 = {hash_here, open_here, update_here, finish_here, close_here};

}  // namespace warren::hash

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
