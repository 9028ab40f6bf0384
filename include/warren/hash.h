/* SPDX-License-Identifier: Apache-2.0 */
// Digests of many pieces of data in one call, and the two hashing methods of StoreGPU, for C
// programs. docs/HASHING.md defines what each function computes. All functions can be called from
// any thread.
//
// Unless stated otherwise a function returns 0 or an errno value: EINVAL for impossible sizes,
// ENOMEM. Results go to a buffer of the caller whose size is stated; if they do not fit, nothing is
// written.
#ifndef WARREN_HASH_H
#define WARREN_HASH_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum warren_hash_algorithm {
    WARREN_HASH_MD5 = 0,
    WARREN_HASH_SHA1 = 1,
    WARREN_HASH_SHA256 = 2,
    WARREN_HASH_BLAKE3 = 3,
    WARREN_HASH_XXH3_128 = 4
};

/// The length of a digest in bytes; 0 if there is no such algorithm.
size_t warren_hash_digest_bytes(enum warren_hash_algorithm algorithm);

/// Writes the standard digests of `count` pieces, one after the other.
int warren_hash_many(enum warren_hash_algorithm algorithm, const void* const* pieces,
                     const size_t* lengths, size_t count, void* digests, size_t digests_bytes);

/// Direct hashing, version 1, with pieces of 4096 bytes. The result has 20 bytes for SHA-1 and 16
/// for MD5. It is not the standard digest.
int storegpu_sha(const void* data, size_t data_bytes, void* digest, size_t digest_bytes);
int storegpu_md5(const void* data, size_t data_bytes, void* digest, size_t digest_bytes);

/// The number of windows of `window_bytes` bytes in the data, if one begins every `offset_bytes`.
size_t storegpu_window_count(size_t data_bytes, size_t window_bytes, size_t offset_bytes);

/// Write the standard SHA-1 or MD5 of every window, truncated to `kept_bytes`, one after the other.
int storegpu_sha_windows(const void* data, size_t data_bytes, size_t window_bytes,
                         size_t offset_bytes, size_t kept_bytes, void* digests,
                         size_t digests_bytes);
int storegpu_md5_windows(const void* data, size_t data_bytes, size_t window_bytes,
                         size_t offset_bytes, size_t kept_bytes, void* digests,
                         size_t digests_bytes);

/// With the signatures of the paper: return the direct hash, or the complete digests of all
/// windows, in memory that the caller releases with free(). Null if memory runs out or there is
/// nothing to hash.
char* storegpu_new_sha(const void* data, size_t data_bytes);
char* storegpu_new_md5(const void* data, size_t data_bytes);
char* storegpu_new_sha_windows(const void* data, size_t data_bytes, size_t window_bytes,
                               size_t offset_bytes);
char* storegpu_new_md5_windows(const void* data, size_t data_bytes, size_t window_bytes,
                               size_t offset_bytes);

#ifdef __cplusplus
}
#endif

/* The names used in the paper, for programs that define WARREN_STOREGPU_NAMES: SHA and MD5 with two
 * arguments compute a direct hash, with four arguments they hash sliding windows. */
#ifdef WARREN_STOREGPU_NAMES
#define WARREN_STOREGPU_CHOOSE(one, two, three, four, chosen, ...) chosen
#define SHA(...)                                                                             \
    WARREN_STOREGPU_CHOOSE(__VA_ARGS__, storegpu_new_sha_windows, 0, storegpu_new_sha, 0, 0) \
    (__VA_ARGS__)
#define MD5(...)                                                                             \
    WARREN_STOREGPU_CHOOSE(__VA_ARGS__, storegpu_new_md5_windows, 0, storegpu_new_md5, 0, 0) \
    (__VA_ARGS__)
#endif

#endif
