// SPDX-License-Identifier: Apache-2.0
// Each kind is looked at in one pass over its entries.
#include "fs/format/check_structure.hpp"

#include <algorithm>
#include <span>

#include "fs/format/directory.hpp"
#include "fs/format/tree.hpp"

namespace warren::format {
namespace {

bool is_block(BlockPointer pointer, u64 size_bytes) {
    return pointer.is_valid() && pointer.offset() % block_size == 0 &&
           pointer.offset() < size_bytes;
}

bool leaf_is_sound(const DirectoryLeaf& leaf) {
    u32 count = 0;
    u32 live_bytes = 0;
    for (const DirectorySlot& slot : leaf.slots) {
        if (slot.inode() == 0) continue;
        const u32 size = (slot.name_length() + 7) / 8 * 8;
        const u32 offset = slot.name_offset();
        if (size == 0 || offset % 8 != 0 || offset + size > leaf_heap_bytes) return false;
        const char* name = reinterpret_cast<const char*>(leaf.heap) + offset;
        if (!is_name({name, slot.name_length()})) return false;
        ++count;
        live_bytes += size;
    }
    return leaf.count == count && leaf.heap_live == live_bytes && live_bytes <= leaf.heap_used &&
           leaf.heap_used <= leaf_heap_bytes;
}

bool pairs_are_sound(std::span<const TreePair> pairs, u64 size_bytes) {
    for (u64 i = 0; i < pairs.size(); ++i) {
        if (!is_block(pairs[i].child, size_bytes)) return false;
        if (i > 0 && pairs[i].key <= pairs[i - 1].key) return false;
    }
    return true;
}

bool extents_are_sound(std::span<const Extent> extents, u64 size_bytes) {
    u64 end = 0;
    for (const Extent& extent : extents) {
        const bool is_possible =
            extent.length > 0 && extent.length <= extent_length_max && extent.file_block >= end &&
            extent.file_block <= file_size_max / block_size && is_block(extent.start, size_bytes);
        if (!is_possible) return false;
        end = extent.file_block + extent.length;
    }
    return true;
}

}  // namespace

bool is_name(std::string_view name) {
    if (name.empty() || name.size() > name_length_max || name == "." || name == "..") return false;
    return std::ranges::none_of(name, [](char byte) { return byte == '/' || byte == '\0'; });
}

bool structure_is_sound(const Block& block, BlockKind kind, u64 size_bytes) {
    switch (kind) {
        case BlockKind::directory_leaf:
            return leaf_is_sound(reinterpret_cast<const DirectoryLeaf&>(block));
        case BlockKind::directory_node:
        case BlockKind::extent_node: {
            const auto& node = reinterpret_cast<const TreeNode&>(block);
            return node.count <= node_pairs_max &&
                   pairs_are_sound(std::span(node.pairs).first(node.count), size_bytes);
        }
        case BlockKind::extent_leaf: {
            const auto& leaf = reinterpret_cast<const ExtentLeaf&>(block);
            return leaf.count <= leaf_extents_max &&
                   extents_are_sound(std::span(leaf.extents).first(leaf.count), size_bytes);
        }
        default:
            return true;
    }
}

bool area_is_sound(const Inode& inode, u64 size_bytes) {
    const u32 count = inode.area_count;
    switch (static_cast<AreaKind>(inode.area_kind)) {
        case AreaKind::extents:
            return count <= inline_extents_max &&
                   extents_are_sound(std::span(inode.area.extents).first(count), size_bytes);
        case AreaKind::tree:
            return count <= root_pairs_max &&
                   pairs_are_sound(std::span(inode.area.pairs).first(count), size_bytes);
        default:
            return true;
    }
}

}  // namespace warren::format
