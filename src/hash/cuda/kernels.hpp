// SPDX-License-Identifier: Apache-2.0
// Digests of many pieces in device memory: the kernels' arguments and launches. One thread hashes
// one piece (four share one for XXH3), so a launch pays from some ten thousand pieces on.
//
// Invariant: bytes outside of a piece may be read in the aligned 16 bytes around its ends, which
// lie in the same allocation, and never change a digest.
#pragma once

#include "hash/windows.hpp"
#include "warren/hash.hpp"

struct CUstream_st;

namespace warren::hash::cuda {

using StreamHandle = CUstream_st*;

/// Pieces in device memory: one buffer cut into equal pieces, or pieces of any place and length.
struct DevicePieces {
    const u8* data = nullptr;
    u64 data_bytes = 0;
    u64 piece_bytes = 0;           // 0: the two arrays say where pieces are
    const u64* offsets = nullptr;  // in device memory, from `data`
    const u64* lengths = nullptr;  // in device memory
    u64 count = 0;
};

/// What every piece begins with; see Beginning in hash/lanes.hpp.
struct DeviceBeginning {
    u32 state[8] = {};
    u64 bytes = 0;  // 0: nothing
};

/// Queues the digests of `pieces` into device memory at `digests`. BLAKE3 pieces are one thread's
/// work here; see hash_tree() for one long message.
Errc hash_pieces(Algorithm algorithm, const DevicePieces& pieces, const DeviceBeginning& beginning,
                 u8* digests, StreamHandle stream);

/// Queues windows [0, count) of `data`, in device memory, for MD5, SHA-1 or SHA-256. A plan's
/// data_bytes says how much of `data` there is. The output is in device memory.
Errc hash_windows(Algorithm algorithm, const WindowPlan& plan, const u8* data, u64 count,
                  const WindowOutput& output, bool stages_in_shared_memory, StreamHandle stream);

/// How many u32 hash_tree() needs in device memory as its own for a message of `bytes`.
u64 tree_words(u64 bytes);

/// Queues the BLAKE3 digest of one message by its tree: a thread a leaf of some chunks, then level
/// by level. `is_root` false gives the chaining value of a subtree that begins with `first_chunk`.
Errc hash_tree(const u8* data, u64 bytes, u64 first_chunk, bool is_root, u32* words, u8* digest,
               StreamHandle stream);

}  // namespace warren::hash::cuda
