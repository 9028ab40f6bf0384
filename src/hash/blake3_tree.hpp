// SPDX-License-Identifier: Apache-2.0
// BLAKE3's trees, many at once: the chunks of several messages fill the lanes together, then their
// parents do, level by level. One long message is cut into subtrees for several threads.
//
// Joining neighbours on every level, with the odd one out moved up, gives BLAKE3's tree, whose left
// halves are the largest powers of two.
#pragma once

#include <vector>

#include "hash/lanes.hpp"

namespace warren::hash {

/// The parts of messages that one thread hashes together.
class Blake3Batch {
 public:
    explicit Blake3Batch(const LaneSet& lanes, const Blake3Key& key) : lanes_(lanes), key_(key) {}

    /// Adds a message (`is_root`), or a subtree that begins with chunk `first_chunk` of one. Its
    /// digest or chaining value goes to `result`, 8 words, when run() is called.
    void add(Bytes data, u64 first_chunk, bool is_root, u8* result);
    /// How many chunks have been added.
    u64 chunks() const { return chunks_; }
    /// Hashes what was added, and forgets it.
    void run();

 private:
    struct Tree {
        Bytes data;
        u64 first_chunk;
        bool is_root;
        u8* result;
        u64 place;  // of its first value
        u64 width;  // values on the present level
    };

    void run_leaves();
    /// Joins neighbours in every tree; false if there was nothing to join.
    bool run_level();
    u32* value(u64 place) { return values_.data() + 8 * place; }

    const LaneSet& lanes_;
    const Blake3Key& key_;
    u64 chunks_ = 0;
    std::vector<Tree> trees_;
    std::vector<u32> values_;
    std::vector<ChunkJob> whole_;
    std::vector<ChunkJob> partial_;
    std::vector<ParentJob> parents_;
};

/// The digest of each of the messages, on this thread.
void hash_blake3_many(const LaneSet& lanes, std::span<const Bytes> messages, u8* digests,
                      const Blake3Key& key = blake3_unkeyed);

/// The digest of one message, or the chaining value of a subtree, with some threads.
void hash_blake3_tree(const LaneSet& lanes, Bytes data, u64 first_chunk, bool is_root, u8* result,
                      u32 threads, const Blake3Key& key = blake3_unkeyed);

/// Joins chaining values of equally large subtrees, the last of which may be smaller, and leaves
/// the result in the first one's place.
void join_blake3(const LaneSet& lanes, std::vector<u32>& values, bool is_root,
                 const Blake3Key& key = blake3_unkeyed);

}  // namespace warren::hash
