// SPDX-License-Identifier: Apache-2.0
// Where blocks of contents are in files, by a digest of the block. The index has a fixed size and
// forgets: a new entry takes the place of an old one. What it answers may have changed meanwhile,
// so its user compares the bytes.
//
// A group is a line of the processor's cache with four entries of 58 bits of the digest, 36 of the
// number of an inode and 34 of a block of the file. The volume's key chooses the group: nobody who
// does not know it can make blocks that push each other out.
#pragma once

#include <span>

#include "fs/engine/cpu/store_memory.hpp"

namespace warren {

struct FileBlock {
    u64 inode = 0;
    u64 block = 0;
};

/// Thread-safe.
class DedupIndex {
 public:
    /// Takes at most `bytes`, which are touched as entries come, and at least one group. `key` is
    /// the volume's. Check is_open(): the system may refuse the range.
    DedupIndex(u64 bytes, const u64 key[2]);

    bool is_open() const { return entries_.data() != nullptr; }
    u64 bytes() const { return groups_ * group_bytes; }

    /// Whether a block with this digest, 32 bytes, was put; sets where it was.
    bool find(std::span<const u8> digest, FileBlock& found) const;
    /// Puts a block, unless its numbers do not fit into an entry.
    void put(std::span<const u8> digest, const FileBlock& at);

 private:
    struct Entry {
        u64 words[2];  // 0: none. Written one after the other: a mixture is one more wrong answer
    };
    static constexpr u64 group_entries = 4;
    static constexpr u64 group_bytes = group_entries * sizeof(Entry);

    Entry* group_of(std::span<const u8> digest, u64& mixed) const;

    u64 groups_;
    u64 key_[2];
    ReservedRange entries_;
};

}  // namespace warren
