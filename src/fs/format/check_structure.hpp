// SPDX-License-Identifier: Apache-2.0
// Whether a block or an inode is consistent in itself: a correct checksum does not prove that a
// correct program wrote it. The loader and fsck on either engine use the same functions, so a block
// that fsck finds sound can be loaded, and a repair removes no block that can be loaded.
//
// Invariant: an algorithm that works on blocks that pass here stays within its memory and
// terminates, because keys are in order and counts are in bounds; and a name leads only to its own
// entry. Not checked: whether blocks agree with each other, and bits that must be written as zero
// but that a later version may use.
#pragma once

#include <string_view>

#include "base/host_device.hpp"
#include "fs/format/directory.hpp"
#include "fs/format/inode.hpp"
#include "fs/format/layout.hpp"
#include "fs/format/tree.hpp"

namespace warren::format {

inline constexpr u64 file_blocks_max = file_size_max / block_size;

/// Whether a pointer leads to a block of a volume of `size_bytes`, and to a tree node if `is_node`.
WARREN_HD constexpr bool pointer_is_sound(BlockPointer pointer, bool is_node, u64 size_bytes) {
    return pointer.is_valid() && pointer.is_indirect() == is_node &&
           pointer.size_class() == SizeClass::kib_4 && pointer.offset() % block_size == 0 &&
           pointer.offset() < size_bytes;
}

WARREN_HD constexpr bool type_is_known(u32 mode) {
    switch (mode & type_mask) {
        case type_directory:
        case type_regular:
        case type_symlink:
        case type_block:
        case type_character:
        case type_fifo:
        case type_socket:
            return true;
        default:
            return false;
    }
}

/// Whether an extent is valid by itself. Unknown bits of its flags are ignored.
WARREN_HD constexpr bool extent_is_sound(const Extent& extent, u64 size_bytes) {
    return pointer_is_sound(extent.start, false, size_bytes) && extent.length >= 1 &&
           extent.length <= extent_length_max && extent.file_block < file_blocks_max &&
           extent.file_block + extent.length <= file_blocks_max &&
           extent.length <= (size_bytes - extent.start.offset()) / block_size;
}

WARREN_HD constexpr bool extents_are_sound(const Extent* extents, u32 count, u64 size_bytes) {
    u64 end = 0;
    for (u32 i = 0; i < count; ++i) {
        if (!extent_is_sound(extents[i], size_bytes) || extents[i].file_block < end) return false;
        end = extents[i].file_block + extents[i].length;
    }
    return true;
}

/// Whether the keys of the pairs rise and their pointers suit pairs of this height.
WARREN_HD constexpr bool pairs_are_sound(const TreePair* pairs, u32 count, u32 height,
                                         u64 size_bytes) {
    for (u32 i = 0; i < count; ++i) {
        if (!pointer_is_sound(pairs[i].child, height > 1, size_bytes)) return false;
        if (i > 0 && pairs[i].key <= pairs[i - 1].key) return false;
    }
    return true;
}

WARREN_HD constexpr bool node_is_sound(const TreeNode& node, u64 size_bytes) {
    return node.count >= 1 && node.count <= node_pairs_max && node.height >= 1 &&
           node.height < tree_height_max &&
           pairs_are_sound(node.pairs, node.count, node.height, size_bytes);
}

/// Whether an area of this kind, with `count` pairs, can be the root of a tree of this height.
WARREN_HD constexpr bool can_be_root(u8 kind, u32 count, u32 height) {
    return kind == static_cast<u8>(AreaKind::tree) && count <= root_pairs_max &&
           height <= tree_height_max && (count == 0 || height > 0);
}

/// Whether the area of an inode is the root of a tree, which without pairs has no height.
WARREN_HD constexpr bool root_is_sound(const Inode& inode, u64 size_bytes) {
    return can_be_root(inode.area_kind, inode.area_count, inode.height) &&
           (inode.height == 0 || inode.area_count > 0) &&
           (inode.area_count == 0 || inode.area.pairs[0].key == 0) &&
           pairs_are_sound(inode.area.pairs, inode.area_count, inode.height, size_bytes);
}

WARREN_HD constexpr bool extent_leaf_is_sound(const ExtentLeaf& leaf, u64 size_bytes) {
    return leaf.count <= leaf_extents_max &&
           extents_are_sound(leaf.extents, leaf.count, size_bytes);
}

/// The bytes that a name takes in the heap of a leaf.
WARREN_HD constexpr u32 name_bytes_padded(u32 length) {
    return (length + 7) / 8 * 8;
}

/// Whether a directory may hold this name: 1 to 255 bytes, any but '/' and NUL, not "." or "..".
WARREN_HD constexpr bool name_is_sound(const char* name, u32 length) {
    if (length == 0 || length > name_length_max) return false;
    for (u32 i = 0; i < length; ++i) {
        if (name[i] == 0 || name[i] == '/') return false;
    }
    return name[0] != '.' || length > 2 || (length == 2 && name[1] != '.');
}
inline bool name_is_sound(std::string_view name) {
    return name.size() <= name_length_max &&
           name_is_sound(name.data(), static_cast<u32>(name.size()));
}

/// Whether the live entry `at` of a leaf has a name, within the heap.
WARREN_HD inline bool entry_is_readable(const DirectoryLeaf& leaf, u32 at) {
    const DirectorySlot slot = leaf.slots[at];
    const u32 offset = slot.name_offset();
    return offset % 8 == 0 && offset + name_bytes_padded(slot.name_length()) <= leaf_heap_bytes &&
           name_is_sound(reinterpret_cast<const char*>(leaf.heap) + offset, slot.name_length());
}

/// Whether it is readable and its name lies in the used part of the heap, padded with zeros.
WARREN_HD inline bool entry_is_sound(const DirectoryLeaf& leaf, u32 at) {
    if (!entry_is_readable(leaf, at)) return false;
    const DirectorySlot slot = leaf.slots[at];
    const u32 end = slot.name_offset() + name_bytes_padded(slot.name_length());
    const char* heap = reinterpret_cast<const char*>(leaf.heap);
    for (u32 i = slot.name_offset() + slot.name_length(); i < end; ++i) {
        if (heap[i] != 0) return false;
    }
    return end <= leaf.heap_used;
}

/// Whether the counts of a leaf are right. New names are written at heap_used.
WARREN_HD inline bool leaf_counts_are_sound(const DirectoryLeaf& leaf) {
    u32 count = 0;
    u32 live_bytes = 0;
    for (u32 i = 0; i < leaf_entries_max; ++i) {
        if (leaf.slots[i].inode() == 0) continue;
        ++count;
        live_bytes += name_bytes_padded(leaf.slots[i].name_length());
    }
    return leaf.count == count && leaf.heap_live == live_bytes && live_bytes <= leaf.heap_used &&
           leaf.heap_used <= leaf_heap_bytes && leaf.heap_used % 8 == 0;
}

/// Whether two names of a leaf overlap in the heap.
WARREN_HD inline bool names_overlap(const DirectoryLeaf& leaf) {
    u64 taken[(leaf_heap_bytes / 8 + 63) / 64] = {};
    for (u32 i = 0; i < leaf_entries_max; ++i) {
        const DirectorySlot slot = leaf.slots[i];
        if (slot.inode() == 0) continue;
        const u32 end = slot.name_offset() + name_bytes_padded(slot.name_length());
        for (u32 word = slot.name_offset() / 8; word < end / 8 && end <= leaf_heap_bytes; ++word) {
            const u64 bit = u64{1} << word % 64;
            if ((taken[word / 64] & bit) != 0) return true;
            taken[word / 64] |= bit;
        }
    }
    return false;
}

WARREN_HD inline bool directory_leaf_is_sound(const DirectoryLeaf& leaf) {
    if (!leaf_counts_are_sound(leaf) || names_overlap(leaf)) return false;
    for (u32 i = 0; i < leaf_entries_max; ++i) {
        if (leaf.slots[i].inode() != 0 && !entry_is_sound(leaf, i)) return false;
    }
    return true;
}

/// How many of the `length` bytes at `bytes` precede the first NUL.
WARREN_HD constexpr u32 bytes_before_nul(const u8* bytes, u32 length) {
    u32 i = 0;
    while (i < length && bytes[i] != 0)
        ++i;
    return i;
}

/// The part of a link's target that lies in its inode.
struct TargetHead {
    const u8* bytes;
    u32 length;
};
WARREN_HD inline TargetHead target_head(const Inode& inode) {
    const auto* area = reinterpret_cast<const u8*>(inode.area.words);
    const bool is_long = inode.area_kind == static_cast<u8>(AreaKind::target);
    return {is_long ? area + 8 : area, is_long ? target_head_bytes : static_cast<u32>(inode.size)};
}

/// Whether the area and the size of a link agree.
WARREN_HD constexpr bool link_is_possible(const Inode& inode) {
    const auto kind = static_cast<AreaKind>(inode.area_kind);
    return (kind == AreaKind::bytes && inode.size > 0 && inode.size <= area_bytes) ||
           (kind == AreaKind::target && inode.size > area_bytes && inode.size <= target_length_max);
}

WARREN_HD inline bool link_is_sound(const Inode& inode, u64 size_bytes) {
    if (!link_is_possible(inode)) return false;
    const TargetHead head = target_head(inode);
    const bool is_long = inode.area_kind == static_cast<u8>(AreaKind::target);
    return bytes_before_nul(head.bytes, head.length) == head.length &&
           (!is_long || pointer_is_sound({inode.area.words[0]}, false, size_bytes));
}

WARREN_HD constexpr bool target_is_sound(const LinkTarget& target) {
    return target.length <= target_length_max - target_head_bytes &&
           bytes_before_nul(target.bytes, target.length) == target.length;
}

/// Whether an inode can describe the contents of a regular file.
WARREN_HD constexpr bool contents_are_sound(const Inode& inode, u64 size_bytes) {
    if (inode.size > file_size_max) return false;
    switch (static_cast<AreaKind>(inode.area_kind)) {
        case AreaKind::bytes:
            return inode.size <= area_bytes;
        case AreaKind::extents:
            return inode.area_count <= inline_extents_max &&
                   extents_are_sound(inode.area.extents, inode.area_count, size_bytes);
        case AreaKind::tree:
            return root_is_sound(inode, size_bytes);
        default:
            return false;
    }
}

/// Whether the inode of a special file has no contents.
WARREN_HD constexpr bool special_is_sound(const Inode& inode) {
    return inode.area_kind == static_cast<u8>(AreaKind::bytes) && inode.size == 0;
}

/// Whether an inode that exists is valid; the blocks that it points to are not read. The attribute
/// pointer is not checked: an inode can be used without its attributes.
WARREN_HD inline bool inode_is_possible(const Inode& inode, u64 size_bytes) {
    if (inode.generation == 0 || !type_is_known(inode.mode)) return false;
    switch (inode.mode & type_mask) {
        case type_directory:
            return root_is_sound(inode, size_bytes);
        case type_regular:
            return contents_are_sound(inode, size_bytes);
        case type_symlink:
            return link_is_sound(inode, size_bytes);
        default:
            return special_is_sound(inode);
    }
}

/// Whether a file can have `names` names outside of the orphan directory, and one there or none:
/// that directory names only what has no other name, because a writer frees what it names.
WARREN_HD constexpr bool file_names_are_sound(u32 names, bool is_orphan) {
    return (names == 0) == is_orphan;
}

/// Whether the contents of a tree block or a link target block are valid. Attribute blocks are
/// checked by core::attributes_are_sound().
WARREN_HD inline bool structure_is_sound(const Block& block, BlockKind kind, u64 size_bytes) {
    switch (kind) {
        case BlockKind::directory_leaf:
            return directory_leaf_is_sound(reinterpret_cast<const DirectoryLeaf&>(block));
        case BlockKind::directory_node:
        case BlockKind::extent_node:
            return node_is_sound(reinterpret_cast<const TreeNode&>(block), size_bytes);
        case BlockKind::extent_leaf:
            return extent_leaf_is_sound(reinterpret_cast<const ExtentLeaf&>(block), size_bytes);
        case BlockKind::link_target:
            return target_is_sound(reinterpret_cast<const LinkTarget&>(block));
        default:
            return true;
    }
}

}  // namespace warren::format
