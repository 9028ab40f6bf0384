// SPDX-License-Identifier: Apache-2.0
// xxHash compiled for the vectors that the including file's pragma selects; see xxh3_library.hpp.
// Everything in xxhash.h is static here.
#pragma once

#if defined(WARREN_HASH_XXHASH)

#include "hash/xxh3_library.hpp"

// g++ 12 warns about uninitialized vectors in its own intrinsics (GCC bug 105593), at the place
// where they are inlined, so the warning is disabled for the whole file.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wunused-function"
#define XXH_INLINE_ALL
#include <xxhash.h>
#pragma GCC diagnostic pop

namespace warren::hash {
namespace {

void store_canonical(XXH128_hash_t value, u8* digest) {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, value);
    for (u32 i = 0; i < sizeof canonical.digest; ++i)
        digest[i] = canonical.digest[i];
}

void hash_here(const void* data, u64 bytes, u8* digest) {
    store_canonical(XXH3_128bits(data, bytes), digest);
}

void* open_here() {
    XXH3_state_t* state = XXH3_createState();
    if (state == nullptr) return nullptr;
    XXH3_128bits_reset(state);
    return state;
}

void update_here(void* stream, const void* data, u64 bytes) {
    XXH3_128bits_update(static_cast<XXH3_state_t*>(stream), data, bytes);
}

void finish_here(void* stream, u8* digest) {
    store_canonical(XXH3_128bits_digest(static_cast<XXH3_state_t*>(stream)), digest);
}

void close_here(void* stream) {
    XXH3_freeState(static_cast<XXH3_state_t*>(stream));
}

}  // namespace
}  // namespace warren::hash

#endif
