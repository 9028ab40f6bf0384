// SPDX-License-Identifier: Apache-2.0
// The C interface of the library. The only exception, std::bad_alloc, becomes ENOMEM.
#include <cerrno>
#include <cstdlib>
#include <new>
#include <vector>

#include "warren/hash.h"
#include "warren/hash.hpp"

namespace {

using namespace warren;
using namespace warren::hash;

Bytes bytes_at(const void* data, size_t bytes) {
    return {static_cast<const std::byte*>(data), bytes};
}

template <class Work>
int guarded(const Work& work) {
    try {
        return static_cast<int>(work());
    } catch (const std::bad_alloc&) {
        return ENOMEM;
    }
}

int direct(Algorithm algorithm, const void* data, size_t data_bytes, void* digest, size_t bytes) {
    return guarded([&] {
        return hash_direct(algorithm, bytes_at(data, data_bytes),
                           std::span(static_cast<u8*>(digest), bytes));
    });
}

int windows_of(const Windows& windows, const void* data, size_t data_bytes, size_t kept_bytes,
               void* digests, size_t bytes) {
    if (kept_bytes > digest_bytes(windows.algorithm)) return EINVAL;
    return guarded([&] {
        return hash_windows(windows, bytes_at(data, data_bytes), static_cast<u32>(kept_bytes),
                            std::span(static_cast<u8*>(digests), bytes));
    });
}

char* new_direct(Algorithm algorithm, const void* data, size_t data_bytes) {
    const size_t bytes = digest_bytes(algorithm);
    void* const digest = std::malloc(bytes);
    if (digest == nullptr) return nullptr;
    if (direct(algorithm, data, data_bytes, digest, bytes) == 0) return static_cast<char*>(digest);
    std::free(digest);
    return nullptr;
}

char* new_windows(const Windows& windows, const void* data, size_t data_bytes) {
    const u32 size = digest_bytes(windows.algorithm);
    const size_t bytes = window_count(windows, data_bytes) * size;
    if (bytes == 0) return nullptr;
    void* const digests = std::malloc(bytes);
    if (digests == nullptr) return nullptr;
    if (windows_of(windows, data, data_bytes, size, digests, bytes) == 0) {
        return static_cast<char*>(digests);
    }
    std::free(digests);
    return nullptr;
}

bool is_algorithm(warren_hash_algorithm algorithm) {
    return static_cast<u32>(algorithm) < std::size(all_algorithms);
}

}  // namespace

size_t warren_hash_digest_bytes(warren_hash_algorithm algorithm) {
    return is_algorithm(algorithm) ? digest_bytes(static_cast<Algorithm>(algorithm)) : 0;
}

int warren_hash_many(warren_hash_algorithm algorithm, const void* const* pieces,
                     const size_t* lengths, size_t count, void* digests, size_t digests_bytes) {
    if (!is_algorithm(algorithm)) return EINVAL;
    return guarded([&] {
        std::vector<Bytes> list;
        list.reserve(count);
        for (size_t i = 0; i < count; ++i)
            list.push_back(bytes_at(pieces[i], lengths[i]));
        return hash_many(static_cast<Algorithm>(algorithm), list,
                         std::span(static_cast<u8*>(digests), digests_bytes));
    });
}

int storegpu_sha(const void* data, size_t data_bytes, void* digest, size_t digest_bytes) {
    return direct(Algorithm::sha1, data, data_bytes, digest, digest_bytes);
}

int storegpu_md5(const void* data, size_t data_bytes, void* digest, size_t digest_bytes) {
    return direct(Algorithm::md5, data, data_bytes, digest, digest_bytes);
}

size_t storegpu_window_count(size_t data_bytes, size_t window_bytes, size_t offset_bytes) {
    return window_count({Algorithm::sha1, window_bytes, offset_bytes}, data_bytes);
}

int storegpu_sha_windows(const void* data, size_t data_bytes, size_t window_bytes,
                         size_t offset_bytes, size_t kept_bytes, void* digests,
                         size_t digests_bytes) {
    return windows_of({Algorithm::sha1, window_bytes, offset_bytes}, data, data_bytes, kept_bytes,
                      digests, digests_bytes);
}

int storegpu_md5_windows(const void* data, size_t data_bytes, size_t window_bytes,
                         size_t offset_bytes, size_t kept_bytes, void* digests,
                         size_t digests_bytes) {
    return windows_of({Algorithm::md5, window_bytes, offset_bytes}, data, data_bytes, kept_bytes,
                      digests, digests_bytes);
}

char* storegpu_new_sha(const void* data, size_t data_bytes) {
    return new_direct(Algorithm::sha1, data, data_bytes);
}

char* storegpu_new_md5(const void* data, size_t data_bytes) {
    return new_direct(Algorithm::md5, data, data_bytes);
}

char* storegpu_new_sha_windows(const void* data, size_t data_bytes, size_t window_bytes,
                               size_t offset_bytes) {
    return new_windows({Algorithm::sha1, window_bytes, offset_bytes}, data, data_bytes);
}

char* storegpu_new_md5_windows(const void* data, size_t data_bytes, size_t window_bytes,
                               size_t offset_bytes) {
    return new_windows({Algorithm::md5, window_bytes, offset_bytes}, data, data_bytes);
}
