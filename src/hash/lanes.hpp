// SPDX-License-Identifier: Apache-2.0
// Multi-buffer hashing on a vector unit: as many messages side by side as a vector has words. The
// same code is compiled for 4 lanes (every processor), 8 (AVX2) and 16 (AVX-512); which of them
// this processor can run is asked once.
//
// Invariant: the number of lanes never shows in a digest.
#pragma once

#include <span>

#include "hash/blake3.hpp"
#include "hash/windows.hpp"
#include "warren/hash.hpp"

namespace warren::hash {

/// The common beginning of all messages: whole blocks before their own bytes.
struct Beginning {
    const u32* state = nullptr;  // after them; null: there are none
    u64 bytes = 0;               // a multiple of 64
};

/// A partly hashed message, to be finished elsewhere.
struct Unfinished {
    const u32* state;  // after all bytes before `rest`, a multiple of 64
    Bytes rest;
    u64 length_bytes;  // of the whole message, its beginning included
};

/// Finishes one message on one thread; see one.hpp.
using FinishOne = void (*)(const Unfinished& message, u8* digest);

/// What every chunk and parent of BLAKE3 begins with: the initial state, or a key and the flag that
/// says so.
struct Blake3Key {
    u32 words[Blake3::state_words];
    u32 flags;
};
inline constexpr Blake3Key blake3_unkeyed = {
    {Blake3::initial[0], Blake3::initial[1], Blake3::initial[2], Blake3::initial[3],
     Blake3::initial[4], Blake3::initial[5], Blake3::initial[6], Blake3::initial[7]},
    0};

/// A leaf of BLAKE3's tree and where its chaining value goes (8 words).
struct ChunkJob {
    Bytes data;    // at most 1024 bytes; none only as the whole of an empty message
    u64 index;     // of the chunk in its message
    bool is_root;  // it is the whole message
    u32* chaining_value;
};

/// A parent in BLAKE3's tree. The results may lie where the children of this or an earlier job of
/// the same call do.
struct ParentJob {
    const u32* children;  // two chaining values, 16 words
    bool is_root;
    u32* chaining_value;
};

/// The functions compiled for one width of vectors. The arrays are indexed by Algorithm: MD5,
/// SHA-1, SHA-256.
struct LaneSet {
    u32 lanes;
    const char* name;
    /// The digest of each piece, preceded by the beginning. Messages that would leave most lanes
    /// empty at the end go to `finish`, at most `alone` of them.
    void (*many[3])(std::span<const Bytes> pieces, u8* digests, const Beginning& beginning,
                    FinishOne finish, u32 alone);
    /// Windows [first, first + count) of the data; see windows.hpp.
    void (*windows[3])(const WindowPlan& plan, const u8* data, u64 first, u64 count,
                       const WindowOutput& output);
    /// Takes all of a long XXH3 message (more than 240 bytes) into its eight accumulators.
    void (*xxh3)(u64 (&accumulators)[8], const u8* data, u64 bytes);
    void (*chunks)(const Blake3Key& key, std::span<const ChunkJob> jobs);
    void (*parents)(const Blake3Key& key, std::span<const ParentJob> jobs);
};

/// All that this processor can run, the widest first.
std::span<const LaneSet* const> lane_sets();

/// The widest.
const LaneSet& widest_lanes();

}  // namespace warren::hash
