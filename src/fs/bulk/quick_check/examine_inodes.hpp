// SPDX-License-Identifier: Apache-2.0
// The phases of the quick check over the inodes: first check each inode alone and claim the blocks
// that its area points to; after all names have been counted, compare its counts of links, blocks
// and names.
//
// A phase is called as phase(team, sums, i). `sums` verifies CRCs, on a CPU by its CRC instruction,
// on a GPU by a warp:
//   is_right(team, block)    whether the CRC of a block is right
//   right_inodes(team, block, wanted, volume, first)
//                            a bit for each wanted inode whose CRC is right
#pragma once

#include "fs/bulk/quick_check/examine.hpp"

namespace warren::ops::examine {

/// Inodes per call in Jump and CompareInodes.
inline constexpr u32 inodes_per_part = 32;

/// Whether an extent is sound, lies within [low, high), and begins within the file's size or is
/// unwritten.
WARREN_HD inline bool is_good_extent(const Exam& exam, const Inode& inode,
                                     const format::Extent& extent, u64 low, u64 high) {
    const bool is_possible = format::extent_is_sound(extent, exam.facts.size_bytes) &&
                             extent.file_block >= low && extent.file_block + extent.length <= high;
    if (!is_possible) return false;
    const u64 end_of_file = (inode.size + block_size - 1) / block_size;
    return extent.file_block < end_of_file || format::is_unwritten(extent);
}

/// The blocks of an extent.
WARREN_HD inline Run run_of(const format::Extent& extent) {
    return {extent.start.offset(), extent.length, format::is_shared(extent)};
}

/// Checks all inodes of a block, or the bitmap in the first block of a frame, and claims the blocks
/// that the inodes own.
struct ExamineInodes {
    Exam exam;

    template <class Team, class Sums>
    WARREN_HD void operator()(const Team& team, const Sums& sums, u64 index) const {
        const Block& block = exam.block(index);
        const u32 in_frame = static_cast<u32>(index % blocks_per_frame);
        const auto& bitmap =
            reinterpret_cast<const format::InodeBitmap&>(exam.block(index - in_frame));
        const u32 wanted =
            static_cast<u32>(bitmap.used[in_frame / 4] >> in_frame % 4 * 16 & 0xffff);
        if (in_frame == 0) return examine_bitmap(team, sums, index, wanted);
        if (wanted == 0) return;
        const u64 first = exam.place_of(index) / format::inode_size;
        const u32 right = sums.right_inodes(team, block, wanted, exam.facts.volume, first);
        if (right != wanted) exam.flaw();
        for (u32 i = team.lane(); i < inodes_per_block; i += Team::width) {
            if ((wanted >> i & 1) == 0) continue;
            examine_inode(reinterpret_cast<const Inode*>(&block)[i], first + i,
                          static_cast<u32>(index * inodes_per_block + i));
        }
    }

 private:
    template <class Team, class Sums>
    WARREN_HD void examine_bitmap(const Team& team, const Sums& sums, u64 index,
                                  u32 own_bits) const {
        const Block& block = exam.block(index);
        const auto& header = reinterpret_cast<const format::BlockHeader&>(block);
        const bool is_sound = header.kind == static_cast<u16>(BlockKind::inode_bitmap) &&
                              header.volume == exam.facts.volume &&
                              header.place == exam.place_of(index) && sums.is_right(team, block);
        if (!is_sound || own_bits != 0xffff) exam.flaw();
    }

    WARREN_HD void examine_inode(const Inode& inode, u64 number, u32 ordinal) const {
        if (!format::inode_is_possible(inode, exam.facts.size_bytes)) return exam.flaw();
        u64 blocks = 0;
        if (inode.attributes.raw != 0) {
            claim(inode, number, inode.attributes, BlockKind::attributes, 0, 0, key_end);
            ++blocks;
        }
        const auto kind = static_cast<format::AreaKind>(inode.area_kind);
        if (format::is_directory(inode.mode)) {
            blocks +=
                enter_tree(inode, number, BlockKind::directory_leaf, BlockKind::directory_node);
        } else if (format::is_regular(inode.mode)) {
            blocks += enter_contents(inode, number, kind);
        } else if (format::is_symlink(inode.mode)) {
            blocks += enter_target(inode, number, kind);
        }
        if (blocks != 0) relaxed_add(exam.blocks[ordinal], blocks);
    }

    WARREN_HD u32 claim(const Inode& inode, u64 number, BlockPointer pointer, BlockKind kind,
                        u32 height, u64 low, u64 high) const {
        return exam.claim_block(pointer, {number, low, high, inode.generation,
                                          static_cast<u16>(kind), static_cast<u16>(height)});
    }

    WARREN_HD u64 enter_contents(const Inode& inode, u64 number, format::AreaKind kind) const {
        if (kind == format::AreaKind::bytes) return 0;
        if (kind == format::AreaKind::tree) {
            return enter_tree(inode, number, BlockKind::extent_leaf, BlockKind::extent_node);
        }
        u64 blocks = 0;
        u64 low = 0;
        for (u32 i = 0; i < inode.area_count; ++i) {
            const format::Extent& extent = inode.area.extents[i];
            if (!is_good_extent(exam, inode, extent, low, key_end)) {
                exam.flaw();
                return 0;
            }
            exam.claim_data(run_of(extent));
            low = extent.file_block + extent.length;
            blocks += extent.length;
        }
        return blocks;
    }

    WARREN_HD u64 enter_target(const Inode& inode, u64 number, format::AreaKind kind) const {
        if (kind == format::AreaKind::bytes) return 0;
        claim(inode, number, BlockPointer{inode.area.words[0]}, BlockKind::link_target, 0, 0,
              inode.size - format::target_head_bytes);
        return 1;
    }

    /// Claims the children of the root of a tree, and returns their number.
    WARREN_HD u64 enter_tree(const Inode& inode, u64 number, BlockKind leaf, BlockKind node) const {
        const u32 count = inode.area_count;
        for (u32 i = 0; i < count; ++i) {
            const format::TreePair pair = inode.area.pairs[i];
            const u64 high = i + 1 < count ? inode.area.pairs[i + 1].key : key_end;
            if (i + 1 == count && pair.key >= high) exam.flaw();
            const u32 height = inode.height - 1u;
            const u32 index =
                claim(inode, number, pair.child, height > 0 ? node : leaf, height, pair.key, high);
            if (index != nobody && height > 0) exam.queue_node(0, index);
        }
        return count;
    }
};

/// A round of pointer jumping, which halves the distance from each directory to its top.
struct Jump {
    Exam exam;

    template <class Team, class Sums>
    WARREN_HD void operator()(const Team& team, const Sums& /*sums*/, u64 part) const {
        for (u32 i = team.lane(); i < inodes_per_part; i += Team::width) {
            u32& word = exam.parents[part * inodes_per_part + i];
            const u32 parent = relaxed_load(word);
            if (parent == nobody) continue;
            const u32 above = relaxed_load(exam.parents[parent]);
            if (above == parent || above == nobody) continue;
            relaxed_store(word, above);
            relaxed_store(exam.state->changes, 1);
        }
    }
};

/// Compares the counts of each inode with what was found. Requires: Jump has ended, so in a sound
/// volume `parents` of a directory is the root directory or the orphan directory.
struct CompareInodes {
    Exam exam;

    template <class Team, class Sums>
    WARREN_HD void operator()(const Team& team, const Sums& /*sums*/, u64 part) const {
        u64 inodes = 0;
        u64 directories = 0;
        for (u32 i = team.lane(); i < inodes_per_part; i += Team::width) {
            const u32 ordinal = static_cast<u32>(part * inodes_per_part + i);
            if (ordinal % inodes_per_frame < inodes_per_block || !exam.exists(ordinal)) continue;
            const Inode& inode = exam.inode(ordinal);
            ++inodes;
            if (format::is_directory(inode.mode)) {
                ++directories;
                compare_directory(ordinal, inode);
            } else {
                compare_file(ordinal, inode);
            }
            if (inode.blocks != exam.blocks[ordinal]) exam.flaw();
        }
        if (part == 0 && team.is_leader()) {
            require_directory(exam.facts.root_inode);
            require_directory(exam.facts.orphan_directory);
        }
        if (inodes != 0) relaxed_add(exam.state->inodes, inodes);
        if (directories != 0) relaxed_add(exam.state->directories, directories);
    }

 private:
    WARREN_HD void require_directory(u64 number) const {
        const u32 ordinal = exam.ordinal_of(number);
        if (!exam.exists(ordinal) || !format::is_directory(exam.inode(ordinal).mode)) exam.flaw();
    }

    WARREN_HD void compare_file(u32 ordinal, const Inode& inode) const {
        const u32 names = exam.names[ordinal] & ~is_orphan;
        const bool is_sound =
            format::file_names_are_sound(names, (exam.names[ordinal] & is_orphan) != 0);
        if (!is_sound || inode.links != names) exam.flaw();
    }

    WARREN_HD void compare_directory(u32 ordinal, const Inode& inode) const {
        const u32 root = exam.ordinal_of(exam.facts.root_inode);
        const u32 orphans = exam.ordinal_of(exam.facts.orphan_directory);
        const u32 top = exam.parents[ordinal];
        if (top != root && top != orphans) return exam.flaw();
        const bool is_removed = top == orphans && ordinal != orphans;
        if (top == root && inode.links != 2 + exam.names[ordinal]) exam.flaw();
        if (!is_removed && (inode.entries & format::entries_dying) != 0) exam.flaw();
        if ((ordinal == root || ordinal == orphans) && inode.parent != exam.number_of(ordinal)) {
            exam.flaw();
        }
        const u64 attributes = inode.attributes.raw != 0 ? 1 : 0;
        const u64 counted = inode.entries & ~format::entries_dying;
        if (ordinal == orphans) relaxed_store(exam.state->orphans, counted);
        if (counted != exam.entries[ordinal] ||
            inode.size != (inode.blocks - attributes) * block_size) {
            exam.flaw();
        }
    }
};

}  // namespace warren::ops::examine
