// SPDX-License-Identifier: Apache-2.0
// A directory leaf: up to 96 entries and a heap of names. A search compares the array of 96 hashes,
// which a warp loads in three accesses of 128 bytes.
//
// Invariant: an entry is live if and only if its inode word is not zero. The key of an entry is
// (55 bits of keyed name hash, 8-bit number). Keys are unique in a directory and never change
// during the life of an entry; readdir positions are derived from them.
#pragma once

#include <string_view>

#include "fs/format/layout.hpp"

namespace warren::format {

inline constexpr u32 leaf_entries_max = 96;
inline constexpr u32 leaf_heap_bytes = 2112;

/// word 0: inode number (48 bits), file type (8, the DT_ values), name length (8).
/// word 1: low 23 bits of the hash at 24, number at 16, heap offset of the name (bytes) at 0.
struct DirectorySlot {
    u64 target;
    u64 position;

    WARREN_HD constexpr u64 inode() const { return target & 0xffffffffffffu; }
    WARREN_HD constexpr u8 type() const { return static_cast<u8>(target >> 48); }
    WARREN_HD constexpr u32 name_length() const { return static_cast<u32>(target >> 56); }
    WARREN_HD constexpr u32 name_offset() const { return static_cast<u32>(position & 0xffff); }
    static WARREN_HD constexpr DirectorySlot make(u64 inode, u8 type, u32 length, u64 key,
                                                  u32 offset) {
        return {inode | u64{type} << 48 | u64{length} << 56, (key & 0x7fffffff) << 16 | offset};
    }
};
static_assert(sizeof(DirectorySlot) == 16);

struct DirectoryLeaf {
    BlockHeader header;
    u32 count;      // live entries
    u32 heap_used;  // bytes from the heap's start that hold names, live or removed
    u32 heap_live;  // bytes of it that hold live names
    u32 zero;
    u32 hashes[leaf_entries_max];  // key >> 31
    DirectorySlot slots[leaf_entries_max];
    u64 heap[leaf_heap_bytes / 8];  // names, each padded with zeros to 8 bytes
};
static_assert(sizeof(DirectoryLeaf) == block_size);

/// The key of the entry in slot `slot` whose word in `hashes` is `hash`.
WARREN_HD constexpr u64 entry_key(u32 hash, DirectorySlot slot) {
    return u64{hash} << 31 | (slot.position >> 16 & 0x7fffffff);
}

/// The lowest key that a name with this 55-bit hash can have: that with number 0.
WARREN_HD constexpr u64 first_key(u64 hash) {
    return hash << 8;
}

inline constexpr u32 hash_bits = 55;

/// The name of an inode in the orphan directory: its number as 16 hexadecimal digits.
struct OrphanName {
    static constexpr u32 length = 16;
    char text[length];

    WARREN_HD explicit OrphanName(u64 inode) {
        for (u32 i = 0; i < length; ++i) {
            text[i] = "0123456789abcdef"[inode >> (60 - 4 * i) & 15];
        }
    }
    std::string_view view() const { return {text, length}; }
};

}  // namespace warren::format
