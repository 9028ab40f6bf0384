// SPDX-License-Identifier: Apache-2.0
// Multi-buffer hashing on vector units: as many messages in parallel as a vector has words. The
// same code is compiled for 4 lanes (every processor), 8 (AVX2) and 16 (AVX-512); which of them
// this processor supports is determined once.
//
// Invariant: digests do not depend on the number of lanes.
#pragma once

#include <span>

#include "hash/blake3.hpp"
#include "hash/windows.hpp"
#include "warren/hash.hpp"

namespace warren::hash {

/// The common beginning of all messages: whole blocks that precede each piece.
struct Beginning {
    const u32* state = nullptr;  // the state after these blocks; null: there are none
    u64 bytes = 0;               // a multiple of 64
};

/// A partly hashed message, to be finished elsewhere.
struct Unfinished {
    const u32* state;  // the state after all bytes before `rest`, a multiple of 64
    Bytes rest;
    u64 length_bytes;  // of the whole message including the beginning
};

/// Completes one message on one thread; see alone.hpp.
using FinishOne = void (*)(const Unfinished& message, u8* digest);

/// The state with which every chunk and parent of BLAKE3 begins: the initial state, or a key and
/// the flag for keyed hashing.
struct Blake3Key {
    u32 words[Blake3::state_words];
    u32 flags;
};
inline constexpr Blake3Key blake3_unkeyed = {
    {Blake3::initial[0], Blake3::initial[1], Blake3::initial[2], Blake3::initial[3],
     Blake3::initial[4], Blake3::initial[5], Blake3::initial[6], Blake3::initial[7]},
    0};

/// A leaf of BLAKE3's tree, and where its chaining value (8 words) is written.
struct ChunkJob {
    Bytes data;    // at most 1024 bytes; empty only if the message is empty
    u64 index;     // number of the chunk in its message
    bool is_root;  // the chunk is the whole message
    u32* chaining_value;
};

/// A parent in BLAKE3's tree. The result may overwrite the children of this or an earlier job of
/// the same call.
struct ParentJob {
    const u32* children;  // two chaining values, 16 words
    bool is_root;
    u32* chaining_value;
};

/// The functions compiled for one vector width. The arrays are indexed by Algorithm: MD5, SHA-1,
/// SHA-256.
struct LaneSet {
    u32 lanes;
    const char* name;
    /// Hashes each piece, preceded by the beginning. At the end of the list, messages that would
    /// leave most lanes idle are passed to `finish`, at most `alone` of them.
    void (*many[3])(std::span<const Bytes> pieces, u8* digests, const Beginning& beginning,
                    FinishOne finish, u32 alone);
    /// Hashes windows [first, first + count) of the data; see windows.hpp.
    void (*windows[3])(const WindowPlan& plan, const u8* data, u64 first, u64 count,
                       const WindowOutput& output);
    /// Processes all of a long XXH3 message (more than 240 bytes) into its eight accumulators.
    void (*xxh3)(u64 (&accumulators)[8], const u8* data, u64 bytes);
    void (*chunks)(const Blake3Key& key, std::span<const ChunkJob> jobs);
    void (*parents)(const Blake3Key& key, std::span<const ParentJob> jobs);
};

/// All widths that this processor supports, the widest first.
std::span<const LaneSet* const> lane_sets();

/// The widest of lane_sets().
const LaneSet& widest_lanes();

}  // namespace warren::hash
