// SPDX-License-Identifier: Apache-2.0
// The inode: 256 bytes; a lookup or a delete needs only the first 64. Its number is its byte offset
// in the volume / 256, so no table maps numbers to places.
//
// Invariant: an inode exists if and only if its bit in the frame's bitmap is set. Each allocation
// of a slot gets another generation, so a handle (number, generation) never means another file.
#pragma once

#include "fs/format/layout.hpp"
#include "fs/format/tree.hpp"

namespace warren::format {

enum class AreaKind : u8 {
    bytes = 0,    // the contents (file) or the target (symbolic link), up to 128 bytes
    extents = 1,  // up to 5 extents
    tree = 2,     // root of a tree: up to 8 pairs
    target = 3,   // a symbolic link's long target: block pointer, then the first 120 bytes
};

inline constexpr u32 area_bytes = 128;
inline constexpr u64 entries_dying = u64{1} << 63;

struct Inode {
    u32 crc;  // CRC32C of volume, number, then the inode with crc and references zero
    u32 generation;
    u32 mode;  // type and permission bits as in stat(2)
    u32 links;
    u64 size;    // bytes; for a directory the bytes of its blocks
    u64 parent;  // directories: the parent's inode number
    u32 user;
    u32 group;
    u64 entries;  // directories: names in it; entries_dying is set while it is being deleted
    u32 zero1;
    u16 flags;
    u8 area_kind;
    u8 height;  // of the tree's root: 1 means its pairs point to leaves
    u16 area_count;
    u16 zero2;
    u32 device;      // major << 20 | minor
    u64 references;  // memory only, zero on disk: opens << 32 | lookups by the kernel
    u64 blocks;      // 4 KiB blocks that this inode owns, its tree included
    BlockPointer attributes;
    u64 transaction;
    i64 accessed;  // times in nanoseconds since 1970
    i64 modified;
    i64 changed;
    i64 born;
    union Area {
        u64 words[area_bytes / 8];
        Extent extents[inline_extents_max];
        TreePair pairs[root_pairs_max];
    } area;
};
static_assert(sizeof(Inode) == inode_size);
static_assert(offsetof(Inode, references) == 64);
static_assert(offsetof(Inode, area) == 128);

/// Inode::flags: made without a name (O_TMPFILE), so link() may still give it one.
inline constexpr u16 flag_unnamed = 1;

inline constexpr u32 type_mask = 0170000;
inline constexpr u32 type_directory = 0040000;
inline constexpr u32 type_regular = 0100000;
inline constexpr u32 type_symlink = 0120000;
inline constexpr u32 type_block = 0060000;
inline constexpr u32 type_character = 0020000;
inline constexpr u32 type_fifo = 0010000;
inline constexpr u32 type_socket = 0140000;
inline constexpr u32 mode_bits = 07777;  // all but the type
inline constexpr u32 mode_setuid = 04000;
inline constexpr u32 mode_setgid = 02000;
inline constexpr u32 mode_sticky = 01000;

WARREN_HD constexpr bool is_directory(u32 mode) {
    return (mode & type_mask) == type_directory;
}
WARREN_HD constexpr bool is_regular(u32 mode) {
    return (mode & type_mask) == type_regular;
}
WARREN_HD constexpr bool is_symlink(u32 mode) {
    return (mode & type_mask) == type_symlink;
}
WARREN_HD constexpr bool is_device(u32 mode) {
    return (mode & type_mask) == type_block || (mode & type_mask) == type_character;
}

/// The DT_ value of a mode, as directory entries keep it.
WARREN_HD constexpr u8 entry_type(u32 mode) {
    return static_cast<u8>((mode & type_mask) >> 12);
}
inline constexpr u8 directory_entry = entry_type(type_directory);

/// Extended attributes: contiguous records of {u16 name length, u16 value length, name, value},
/// each padded to a multiple of 4 bytes.
struct AttributeBlock {
    BlockHeader header;
    u32 bytes_used;
    u32 zero;
    u64 zero2;
    u8 records[4032];
};
static_assert(sizeof(AttributeBlock) == block_size);

inline constexpr u32 target_head_bytes = area_bytes - 8;

/// The target of a symbolic link from byte target_head_bytes on, if it has more than 128 bytes.
struct LinkTarget {
    BlockHeader header;
    u32 length;  // of `bytes`
    u32 zero;
    u64 zero2;
    u8 bytes[4032];
};
static_assert(sizeof(LinkTarget) == block_size);

inline constexpr u32 target_length_max = 4095;

}  // namespace warren::format
