// SPDX-License-Identifier: Apache-2.0
// Many BLAKE3 trees at once: the chunks of several messages fill the lanes together, then their
// parents do, level by level. One long message is divided into subtrees for several threads.
//
// Joining neighbours on every level, and moving an odd one up, gives BLAKE3's tree, whose left
// subtrees are the largest powers of two.
#pragma once

#include <vector>

#include "hash/lanes.hpp"

namespace warren::hash {

/// The messages, or parts of them, that one thread hashes together.
class Blake3Batch {
 public:
    explicit Blake3Batch(const LaneSet& lanes, const Blake3Key& key) : lanes_(lanes), key_(key) {}

    /// Adds a message (`is_root`), or a subtree of one that begins with chunk `first_chunk`. run()
    /// writes its digest or chaining value, 8 words, to `result`.
    void add(Bytes data, u64 first_chunk, bool is_root, u8* result);
    /// The number of chunks that have been added.
    u64 chunks() const { return chunks_; }
    /// Hashes what was added, and empties the batch.
    void run();

 private:
    struct Tree {
        Bytes data;
        u64 first_chunk;
        bool is_root;
        u8* result;
        u64 place;  // index of its first value
        u64 width;  // number of values on the current level
    };

    void run_leaves();
    /// Joins neighbours in every tree. Returns false if there was nothing to join.
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

/// Writes the digest of each message, on the calling thread.
void hash_blake3_many(const LaneSet& lanes, std::span<const Bytes> messages, u8* digests,
                      const Blake3Key& key = blake3_unkeyed);

/// Writes the digest of one message, or the chaining value of a subtree, using `threads` threads.
void hash_blake3_tree(const LaneSet& lanes, Bytes data, u64 first_chunk, bool is_root, u8* result,
                      u32 threads, const Blake3Key& key = blake3_unkeyed);

/// Joins the chaining values of equally large subtrees, the last of which may be smaller. The
/// result replaces the first value.
void join_blake3(const LaneSet& lanes, std::vector<u32>& values, bool is_root,
                 const Blake3Key& key = blake3_unkeyed);

}  // namespace warren::hash
