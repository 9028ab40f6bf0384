// SPDX-License-Identifier: Apache-2.0
// Maps the digest of a block to a place in a file with that block. The index has a fixed size: a
// new entry replaces an old one. The file may have changed since, so the caller must compare the
// bytes.
//
// A group is one cache line with four entries, each with 58 bits of the digest, 36 bits of an inode
// number and 34 bits of a block number in the file.
#pragma once

#include "base/reserved_range.hpp"
#include "fs/volume/dedup_digest.hpp"

namespace warren {

struct FileBlock {
    u64 inode;
    u64 block;
};

/// Thread-safe.
class DedupIndex {
 public:
    /// Uses at most `bytes`, but at least one group; memory is committed as entries are added.
    /// Check is_open(): the system may refuse the address range.
    explicit DedupIndex(u64 bytes);

    bool is_open() const { return entries_.data() != nullptr; }
    u64 bytes() const { return groups_ * group_bytes; }
    u64 entries() const { return groups_ * group_entries; }

    /// Call it some time before find() or put() for this digest.
    void prefetch(const DedupDigest& digest) const { __builtin_prefetch(group_of(digest), 1); }
    /// Whether the index has a block with this digest. If so, sets `found` to its place.
    bool find(const DedupDigest& digest, FileBlock& found) const;
    /// Adds a block, unless its numbers do not fit in an entry.
    void put(const DedupDigest& digest, const FileBlock& at);
    /// As put(), but does not replace another entry.
    void put_if_free(const DedupDigest& digest, const FileBlock& at);

 private:
    struct Entry {
        u64 words[2];  // 0: empty. Stored one by one: a mixed entry is merely wrong
    };
    static constexpr u64 group_entries = 4;
    static constexpr u64 group_bytes = group_entries * sizeof(Entry);

    Entry* group_of(const DedupDigest& digest) const;
    Entry* touch(const DedupDigest& digest) const;
    Entry* find_place(const DedupDigest& digest, Entry* other) const;
    static void put_in(Entry* place, const DedupDigest& digest, const FileBlock& at);

    u64 groups_;
    ReservedRange entries_;
};

}  // namespace warren
