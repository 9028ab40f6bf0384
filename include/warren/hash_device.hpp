// SPDX-License-Identifier: Apache-2.0
// Digests of data in device memory, for C++ programs that use CUDA themselves: the data are read in
// place, and the work is queued in the caller's stream.
//
// Results may go to device or host memory; they are valid once the stream has completed the queued
// work. For unaligned data up to the surrounding multiples of 16 bytes may be read at both ends; a
// CUDA allocation always includes these bytes. Every function returns Errc::no_device in a build
// without CUDA.
#pragma once

#include "warren/hash.hpp"

namespace warren::hash::device {

/// A cudaStream_t; null is the default stream.
using Stream = void*;

/// Like hash::hash_pieces(). Writes (data_bytes + piece_bytes - 1) / piece_bytes digests. One
/// thread hashes a piece, so pieces of more than 1 MiB are slow, except through hash_one().
Errc hash_pieces(Algorithm algorithm, const void* data, u64 data_bytes, u64 piece_bytes,
                 void* digests, Stream stream);

/// Like hash::hash_many(): piece i is data[offsets[i], offsets[i] + lengths[i]). Both arrays are in
/// device memory.
Errc hash_many(Algorithm algorithm, const void* data, const u64* offsets, const u64* lengths,
               u64 count, void* digests, Stream stream);

/// Writes the BLAKE3 digest of one message, computed in parallel over its tree.
Errc hash_one(const void* data, u64 data_bytes, void* digest, Stream stream);

/// Like hash::hash_windows() and hash::match_windows(), for MD5, SHA-1 and SHA-256. `output` has
/// window_count() * kept_bytes bytes, `bitmap` has (window_count() + 63) / 64 words.
Errc hash_windows(const Windows& windows, const void* data, u64 data_bytes, u32 kept_bytes,
                  void* output, Stream stream);
Errc match_windows(const Windows& windows, const void* data, u64 data_bytes, u32 zero_bits,
                   u64* bitmap, Stream stream);

}  // namespace warren::hash::device
