/* SPDX-License-Identifier: Apache-2.0 */
// Digests of many pieces of data at once, and StoreGPU's two ways of hashing, for C programs. What
// each function computes is defined in docs/HASHING.md.
//
// Every function returns 0 or a number of errno: EINVAL for impossible sizes, ENOMEM. Results go to
// the caller's buffer of the stated size; nothing is written unless they fit.
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

/// The length of a digest; 0 if there is no such algorithm.
size_t warren_hash_digest_bytes(enum warren_hash_algorithm algorithm);

/// The standard digests of `count` pieces, one behind the other.
int warren_hash_many(enum warren_hash_algorithm algorithm, const void* const* pieces,
                     const size_t* lengths, size_t count, void* digests, size_t digests_bytes);

/// Direct hashing, version 1, in pieces of 4096 bytes: 20 bytes for SHA-1, 16 for MD5. These are
/// not the standard digests.
int storegpu_sha(const void* data, size_t data_bytes, void* digest, size_t digest_bytes);
int storegpu_md5(const void* data, size_t data_bytes, void* digest, size_t digest_bytes);

/// How many windows of `window_bytes` at each `offset_bytes` lie in the data.
size_t storegpu_window_count(size_t data_bytes, size_t window_bytes, size_t offset_bytes);

/// The standard SHA-1 or MD5 of every window, cut to its first `kept_bytes`, one behind the other.
int storegpu_sha_windows(const void* data, size_t data_bytes, size_t window_bytes,
                         size_t offset_bytes, size_t kept_bytes, void* digests,
                         size_t digests_bytes);
int storegpu_md5_windows(const void* data, size_t data_bytes, size_t window_bytes,
                         size_t offset_bytes, size_t kept_bytes, void* digests,
                         size_t digests_bytes);

/// As the paper's functions: the digest, or all windows' whole digests, in memory that the caller
/// releases with free(). Null if out of memory or nothing to hash.
char* storegpu_new_sha(const void* data, size_t data_bytes);
char* storegpu_new_md5(const void* data, size_t data_bytes);
char* storegpu_new_sha_windows(const void* data, size_t data_bytes, size_t window_bytes,
                               size_t offset_bytes);
char* storegpu_new_md5_windows(const void* data, size_t data_bytes, size_t window_bytes,
                               size_t offset_bytes);

#ifdef __cplusplus
}
#endif

/* The paper's own names, for programs that want them: SHA and MD5 with two arguments hash directly,
 * with four they hash sliding windows. */
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
