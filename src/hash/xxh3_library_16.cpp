// SPDX-License-Identifier: Apache-2.0
// xxHash compiled with AVX-512. As in lanes_16.cpp, headers of the standard library come first.
// Nothing here runs before the processor has been checked.
#if defined(__x86_64__) && defined(WARREN_HASH_XXHASH)

#include <immintrin.h>

#include <cassert>
#include <cstdlib>
#include <cstring>

#include "hash/xxh3_library.hpp"

// g++ 12 does not define the macros of a target that a pragma selects, on which xxhash.h depends.
#define XXH_VECTOR 3
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))), \
                             apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")
#endif

#include "hash/xxh3_library_body.hpp"

namespace warren::hash {

extern const Xxh3Functions xxh3_functions_16;
const Xxh3Functions xxh3_functions_16 = {hash_here, open_here, update_here, finish_here,
                                         close_here};

}  // namespace warren::hash

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
