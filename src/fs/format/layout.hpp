// SPDX-License-Identifier: Apache-2.0
// The units of a volume and the identity that every metadata block carries. docs/FORMAT.md is the
// normative text; these structs are the same bytes, used in place on the CPU and on the GPU.
//
// Invariant: the format contains no memory addresses, only byte offsets from the volume's start.
#pragma once

#include <cstddef>
#include <span>

#include "base/host_device.hpp"
#include "warren/types.hpp"

namespace warren::format {

inline constexpr u64 block_size = 4 * kib;
inline constexpr u64 frame_size = 2 * mib;
inline constexpr u64 inode_size = 256;
inline constexpr u32 blocks_per_frame = frame_size / block_size;
inline constexpr u32 inodes_per_block = block_size / inode_size;
inline constexpr u32 inodes_per_frame = frame_size / inode_size;
/// How many inodes a frame can hold: its bitmap takes the block of the first ones.
inline constexpr u64 inode_slots_per_frame = inodes_per_frame - inodes_per_block;
/// The words of a bitmap with a bit for each block of a frame.
inline constexpr u32 words_per_frame = blocks_per_frame / 64;
inline constexpr u64 volume_size_min = 16 * mib;
inline constexpr u64 volume_size_max = 16 * tib;
inline constexpr u32 name_length_max = 255;
inline constexpr u64 file_size_max = u64{1} << 60;

/// Whether a file can have the bytes [offset, offset + length).
WARREN_HD constexpr bool fits_in_file(u64 offset, u64 length) {
    return offset <= file_size_max && length <= file_size_max - offset;
}

enum class SizeClass : u8 { bytes_256 = 0, kib_4 = 1, mib_2 = 2, gib_1 = 3 };

/// A 64-bit block pointer: bits 0-1 size class, 2 valid, 3 indirect (points to a tree node),
/// 4-6 zero, 7-63 the byte offset in the volume. All zero means "none".
struct BlockPointer {
    u64 raw = 0;

    static WARREN_HD constexpr BlockPointer to(u64 offset, bool indirect = false) {
        return {offset << 7 | (indirect ? 8u : 0u) | 4u | static_cast<u64>(SizeClass::kib_4)};
    }
    WARREN_HD constexpr u64 offset() const { return raw >> 7; }
    WARREN_HD constexpr bool is_valid() const { return (raw & 0x74) == 4; }
    WARREN_HD constexpr bool is_indirect() const { return (raw & 8) != 0; }
    WARREN_HD constexpr SizeClass size_class() const { return static_cast<SizeClass>(raw & 3); }
    friend constexpr bool operator==(BlockPointer, BlockPointer) = default;
};
static_assert(sizeof(BlockPointer) == 8);

enum class BlockKind : u16 {
    none = 0,
    superblock = 1,
    frame_table = 2,
    inode_bitmap = 3,
    directory_leaf = 4,
    directory_node = 5,
    extent_leaf = 6,
    extent_node = 7,
    attributes = 8,
    journal_descriptor = 9,
    journal_commit = 10,
    link_target = 11,
    reference_counts = 12,
};

/// The first 48 bytes of every metadata block. They reveal a block that is stale, torn, misplaced
/// or of another volume. `crc` and `transaction` are set by a commit; in memory they mean nothing.
struct BlockHeader {
    u32 crc;  // CRC32C of the block with this field zero
    u16 kind;
    u16 zero;
    u64 volume;  // first 8 bytes of the UUID
    u64 place;   // byte offset of this block in the volume
    u64 owner;   // inode number, or 0 for blocks of the volume itself
    u32 owner_generation;
    u32 zero2;
    u64 transaction;
};
static_assert(sizeof(BlockHeader) == 48);

/// The identity that a pointer expects of a block owned by an inode. A block with another identity
/// is stale: it must not be used even if its checksum is right, because it may belong to another
/// file.
struct BlockIdentity {
    BlockKind kind = BlockKind::none;
    u32 generation = 0;  // of the owner
    u64 owner = 0;       // inode number

    /// Whether words 2 i and 2 i + 1 of a header agree with it. Free of branches, because each lane
    /// of a warp compares another pair of words.
    WARREN_HD constexpr bool agrees(u32 i, u64 low, u64 high) const {
        return ((i != 0) | ((low >> 32 & 0xffff) == static_cast<u64>(kind))) &
               ((i != 1) | (high == owner)) & ((i != 2) | (static_cast<u32>(low) == generation));
    }
    /// The same for a whole header that no other thread is changing.
    WARREN_HD constexpr bool agrees(const BlockHeader& header) const {
        return agrees(0, u64{header.kind} << 32, 0) & agrees(1, 0, header.owner) &
               agrees(2, header.owner_generation, 0);
    }
};
static_assert(offsetof(BlockHeader, kind) == 4 && offsetof(BlockHeader, owner) == 24 &&
              offsetof(BlockHeader, owner_generation) == 32);

/// One metadata block as words; all 4 KiB structures of the format are overlaid on it.
struct alignas(block_size) Block {
    u64 words[block_size / 8];

    std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(words)); }
    std::span<const std::byte> bytes() const { return std::as_bytes(std::span(words)); }
};
static_assert(sizeof(Block) == block_size);

}  // namespace warren::format
