// SPDX-License-Identifier: Apache-2.0
// Where blocks of contents are in files, by a digest of the block. The index has a fixed size and
// forgets: a new entry takes the place of an old one. What it answers may have changed meanwhile,
// so its user compares the bytes.
//
// A group is a line of the processor's cache with four entries of 58 bits of the digest, 36 of the
// number of an inode and 34 of a block of the file.
#pragma once

#include "fs/engine/cpu/store_memory.hpp"
#include "fs/volume/dedup_digest.hpp"

namespace warren {

struct FileBlock {
    u64 inode;
    u64 block;
};

/// Thread-safe.
class DedupIndex {
 public:
    /// Takes at most `bytes`, which are touched as entries come, and at least one group. Check
    /// is_open(): the system may refuse the range.
    explicit DedupIndex(u64 bytes);

    bool is_open() const { return entries_.data() != nullptr; }
    u64 bytes() const { return groups_ * group_bytes; }
    u64 entries() const { return groups_ * group_entries; }

    /// Soon find() or put() will ask for this digest.
    void prefetch(const DedupDigest& digest) const { __builtin_prefetch(group_of(digest), 1); }
    /// Whether a block with this digest was put; sets where it was.
    bool find(const DedupDigest& digest, FileBlock& found) const;
    /// Puts a block, unless its numbers do not fit into an entry.
    void put(const DedupDigest& digest, const FileBlock& at);
    /// As put(), where that takes the place of no other entry.
    void put_if_free(const DedupDigest& digest, const FileBlock& at);

 private:
    struct Entry {
        u64 words[2];  // 0: none. Written one after the other: a mixture is one more wrong answer
    };
    static constexpr u64 group_entries = 4;
    static constexpr u64 group_bytes = group_entries * sizeof(Entry);

    Entry* group_of(const DedupDigest& digest) const;
    Entry* find_place(const DedupDigest& digest, Entry* other) const;
    static void put_in(Entry* place, const DedupDigest& digest, const FileBlock& at);

    u64 groups_;
    ReservedRange entries_;
};

}  // namespace warren
