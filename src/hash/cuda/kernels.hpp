// SPDX-License-Identifier: Apache-2.0
// Digests of many pieces in device memory: arguments and launch functions of the kernels. One
// thread hashes one piece (for XXH3 four threads do), so a launch is worthwhile from some ten
// thousand pieces on.
//
// Invariant: bytes outside of a piece may be read within the aligned 16 bytes around its ends,
// which are in the same allocation. They never affect a digest.
#pragma once

#include "hash/windows.hpp"
#include "warren/hash.hpp"

struct CUstream_st;

namespace warren::hash::cuda {

using StreamHandle = CUstream_st*;

/// Pieces in device memory: one buffer divided into equal pieces, or pieces at any offset and of
/// any length.
struct DevicePieces {
    const u8* data = nullptr;
    u64 data_bytes = 0;
    u64 piece_bytes = 0;           // 0: the two arrays describe the pieces
    const u64* offsets = nullptr;  // in device memory, relative to `data`
    const u64* lengths = nullptr;  // in device memory
    u64 count = 0;
};

/// The common beginning of all pieces; see Beginning in hash/lanes.hpp.
struct DeviceBeginning {
    u32 state[8] = {};
    u64 bytes = 0;  // 0: there is none
};

/// Queues the digests of `pieces`, to be written to device memory at `digests`. One thread hashes a
/// BLAKE3 piece here; see hash_tree() for one long message.
Errc hash_pieces(Algorithm algorithm, const DevicePieces& pieces, const DeviceBeginning& beginning,
                 u8* digests, StreamHandle stream);

/// Queues hashing windows [0, count) of `data`, in device memory, with MD5, SHA-1 or SHA-256. The
/// plan's data_bytes is the size of `data`. The output is in device memory.
Errc hash_windows(Algorithm algorithm, const WindowPlan& plan, const u8* data, u64 count,
                  const WindowOutput& output, bool stages_in_shared_memory, StreamHandle stream);

/// The number of u32 in device memory that hash_tree() needs as workspace for a message of `bytes`.
u64 tree_words(u64 bytes);

/// Queues the BLAKE3 digest of one message by its tree: one thread per leaf of some chunks, then
/// level by level. If `is_root` is false, the result is the chaining value of a subtree that begins
/// with `first_chunk`.
Errc hash_tree(const u8* data, u64 bytes, u64 first_chunk, bool is_root, u32* words, u8* digest,
               StreamHandle stream);

}  // namespace warren::hash::cuda
