// SPDX-License-Identifier: Apache-2.0
// The phases of the quick check over the blocks of trees, attributes and link targets: compare each
// block with what the pointer to it says (the expected block), and each name with its inode. Nodes
// are checked level by level, because what is expected of a block must be stored before the block
// is read.
#pragma once

#include "fs/bulk/quick_check/examine_inodes.hpp"
#include "fs/core/acl.hpp"
#include "fs/core/name_hash.hpp"

namespace warren::ops::examine {

/// Checks a node of a tree, and adds the nodes below it to the other queue.
struct ExamineNodes {
    Exam exam;
    u32 queue;

    template <class Team, class Sums>
    WARREN_HD void operator()(const Team& team, const Sums& sums, u64 at) const {
        const u32 index = exam.nodes[queue][at];
        const ExpectedBlock expected = exam.expected_blocks[index];
        const auto& node = reinterpret_cast<const format::TreeNode&>(exam.metadata_block(index));
        const bool is_good =
            exam.keeps(exam.metadata_block(index), exam.metadata_place(index), expected) &&
            sums.is_right(team, exam.metadata_block(index)) && node.count >= 1 &&
            node.count <= format::node_pairs_max && node.height == expected.height &&
            begins_well(node, expected);
        if (!is_good) return exam.flaw();
        const u32 height = expected.height - 1u;
        const bool is_file = expected.kind == static_cast<u16>(BlockKind::extent_node);
        const BlockKind leaf = is_file ? BlockKind::extent_leaf : BlockKind::directory_leaf;
        for (u32 i = team.lane(); i < node.count; i += Team::width) {
            const u64 low = node.pairs[i].key;
            const u64 high = i + 1 < node.count ? node.pairs[i + 1].key : expected.high;
            if (low >= high) exam.flaw();
            const u16 kind = height > 0 ? expected.kind : static_cast<u16>(leaf);
            const u32 child = exam.claim_block(
                node.pairs[i].child,
                {expected.owner, low, high, expected.generation, kind, static_cast<u16>(height)});
            if (child != nobody && height > 0) exam.queue_node(1 - queue, child);
        }
        if (team.is_leader()) {
            relaxed_add(exam.blocks[exam.ordinal_of(expected.owner)], u64{node.count});
        }
    }

 private:
    /// Whether the first key is the expected one. In a directory that is being removed it may be
    /// higher, because the children before it were freed.
    WARREN_HD bool begins_well(const format::TreeNode& node, const ExpectedBlock& expected) const {
        if (node.pairs[0].key == expected.low) return true;
        if (expected.kind != static_cast<u16>(BlockKind::directory_node)) return false;
        const Inode& owner = exam.inode(exam.ordinal_of(expected.owner));
        return (owner.entries & format::entries_dying) != 0 && node.pairs[0].key > expected.low;
    }
};

/// Checks a block of a metadata frame, unless it is a node.
struct ExamineBlocks {
    Exam exam;

    template <class Team, class Sums>
    WARREN_HD void operator()(const Team& team, const Sums& sums, u64 index64) const {
        const u32 index = static_cast<u32>(index64);
        const u64 place = exam.metadata_place(index);
        const u32 bit = index % blocks_per_frame;
        const u64 owned = relaxed_load(exam.owned[place / frame_size * 8 + bit / 64]);
        if ((owned >> bit % 64 & 1) == 0) return;
        const ExpectedBlock expected = exam.expected_blocks[index];
        if (expected.height > 0) return;
        const Block& block = exam.metadata_block(index);
        if (!exam.keeps(block, place, expected) || !sums.is_right(team, block)) return exam.flaw();
        switch (static_cast<BlockKind>(expected.kind)) {
            case BlockKind::directory_leaf:
                return examine_names(team, reinterpret_cast<const format::DirectoryLeaf&>(block),
                                     expected);
            case BlockKind::extent_leaf:
                return examine_extents(team, reinterpret_cast<const format::ExtentLeaf&>(block),
                                       expected);
            case BlockKind::reference_counts:
                return;  // see CompareCounts
            case BlockKind::link_target:
                if (team.is_leader()) {
                    examine_target(reinterpret_cast<const format::LinkTarget&>(block), expected);
                }
                return;
            default:
                if (team.is_leader() &&
                    !core::attributes_are_sound(
                        reinterpret_cast<const format::AttributeBlock&>(block))) {
                    exam.flaw();
                }
        }
    }

 private:
    static constexpr u32 entries_max = format::leaf_entries_max;

    template <class Team>
    WARREN_HD void examine_names(const Team& team, const format::DirectoryLeaf& leaf,
                                 const ExpectedBlock& expected) const {
        if (team.is_leader() &&
            (!format::leaf_counts_are_sound(leaf) || format::names_overlap(leaf))) {
            exam.flaw();
        }
        const u32 directory = exam.ordinal_of(expected.owner);
        for (u32 i = team.lane(); i < entries_max; i += Team::width) {
            if (leaf.slots[i].inode() == 0) continue;
            if (!is_good_entry(leaf, i, expected)) {
                exam.flaw();
                continue;
            }
            meet(directory, leaf, leaf.slots[i]);
        }
        if (team.is_leader()) relaxed_add(exam.entries[directory], leaf.count);
    }

    WARREN_HD bool is_good_entry(const format::DirectoryLeaf& leaf, u32 at,
                                 const ExpectedBlock& expected) const {
        if (!format::entry_is_sound(leaf, at)) return false;
        const format::DirectorySlot slot = leaf.slots[at];
        const u32 length = slot.name_length();
        const char* name = reinterpret_cast<const char*>(leaf.heap) + slot.name_offset();
        const u64 key = format::entry_key(leaf.hashes[at], slot);
        const u64 hash = name_hash(exam.facts.hash_key, name, length) & exam.facts.hash_mask;
        if (key < expected.low || key >= expected.high || key >> 8 != hash) return false;
        // Names with the same hash in this leaf and the one before it are left to the full check.
        if (expected.low % 256 != 0 && expected.low >> 8 == hash) return false;
        for (u32 other = at + 1; other < entries_max; ++other) {
            if (leaf.slots[other].inode() != 0 && meets(leaf, at, other)) return false;
        }
        return true;
    }

    /// Whether two entries have the same key or the same name. Requires: the first entry is sound.
    WARREN_HD bool meets(const format::DirectoryLeaf& leaf, u32 one, u32 other) const {
        const format::DirectorySlot a = leaf.slots[one];
        const format::DirectorySlot b = leaf.slots[other];
        if (leaf.hashes[one] != leaf.hashes[other]) return false;
        const u64 a_key = format::entry_key(leaf.hashes[one], a);
        const u64 b_key = format::entry_key(leaf.hashes[other], b);
        if (a_key == b_key) return true;
        if (a_key >> 8 != b_key >> 8 || a.name_length() != b.name_length()) return false;
        const char* heap = reinterpret_cast<const char*>(leaf.heap);
        if (b.name_offset() + b.name_length() > format::leaf_heap_bytes) return true;
        for (u32 i = 0; i < a.name_length(); ++i) {
            if (heap[a.name_offset() + i] != heap[b.name_offset() + i]) return false;
        }
        return true;
    }

    /// Counts the name in `slot` for its inode.
    WARREN_HD void meet(u32 directory, const format::DirectoryLeaf& leaf,
                        format::DirectorySlot slot) const {
        const u32 root = exam.ordinal_of(exam.facts.root_inode);
        const u32 orphans = exam.ordinal_of(exam.facts.orphan_directory);
        const u32 target = exam.ordinal_of(slot.inode());
        if (target == nobody || target == root || target == orphans || !exam.exists(target)) {
            return exam.flaw();
        }
        const Inode& inode = exam.inode(target);
        if (slot.type() != format::entry_type(inode.mode)) exam.flaw();
        const bool is_orphan_name = directory == orphans;
        if (is_orphan_name && !is_name_of_orphan(leaf, slot)) exam.flaw();
        if (!format::is_directory(inode.mode)) {
            device_atomic<u32> names(exam.names[target]);
            if (is_orphan_name) {
                names.fetch_or(is_orphan, hd::memory_order_relaxed);
            } else {
                names.fetch_add(1, hd::memory_order_relaxed);
            }
            return;
        }
        if (!is_orphan_name) {
            if (inode.parent != exam.number_of(directory)) exam.flaw();
            relaxed_add(exam.names[directory], 1);
        }
        u32 nobody_yet = nobody;
        if (!device_atomic<u32>(exam.parents[target])
                 .compare_exchange_strong(nobody_yet, directory, hd::memory_order_relaxed)) {
            exam.flaw();
        }
    }

    /// Whether the name is that of its inode in the orphan directory.
    static WARREN_HD bool is_name_of_orphan(const format::DirectoryLeaf& leaf,
                                            format::DirectorySlot slot) {
        if (slot.name_length() != format::OrphanName::length) return false;
        const char* name = reinterpret_cast<const char*>(leaf.heap) + slot.name_offset();
        const format::OrphanName wanted(slot.inode());
        for (u32 i = 0; i < format::OrphanName::length; ++i) {
            if (name[i] != wanted.text[i]) return false;
        }
        return true;
    }

    template <class Team>
    WARREN_HD void examine_extents(const Team& team, const format::ExtentLeaf& leaf,
                                   const ExpectedBlock& expected) const {
        if (leaf.count > format::leaf_extents_max) return exam.flaw();
        const u32 ordinal = exam.ordinal_of(expected.owner);
        const Inode& inode = exam.inode(ordinal);
        for (u32 i = team.lane(); i < leaf.count; i += Team::width) {
            const format::Extent& extent = leaf.extents[i];
            u64 low = expected.low;
            if (i > 0) low = leaf.extents[i - 1].file_block + leaf.extents[i - 1].length;
            if (!is_good_extent(exam, inode, extent, low, expected.high)) {
                exam.flaw();
                continue;
            }
            exam.claim_data(run_of(extent));
            relaxed_add(exam.blocks[ordinal], u64{extent.length});
        }
    }

    WARREN_HD void examine_target(const format::LinkTarget& target,
                                  const ExpectedBlock& expected) const {
        if (target.length != expected.high || !format::target_is_sound(target)) exam.flaw();
    }
};

/// Claims a part of a long run of data.
struct ExamineRuns {
    Exam exam;

    template <class Team, class Sums>
    WARREN_HD void operator()(const Team& team, const Sums& /*sums*/, u64 at) const {
        if (team.is_leader()) exam.own_run(exam.runs[at]);
    }
};

/// Claims the block with the reference counts of a frame.
struct ClaimCounts {
    Exam exam;

    template <class Team, class Sums>
    WARREN_HD void operator()(const Team& team, const Sums& /*sums*/, u64 at) const {
        const CountedFrame& counted = exam.counted[at];
        if (!team.is_leader()) return;
        exam.claim_block({counted.pointer}, {counted.frame, 0, 0, 0,
                                             static_cast<u16>(BlockKind::reference_counts), 0});
    }
};

/// Compares the reference counts of a frame with the extents that were found.
struct CompareCounts {
    Exam exam;

    template <class Team, class Sums>
    WARREN_HD void operator()(const Team& team, const Sums& /*sums*/, u64 at) const {
        const BlockPointer pointer{exam.counted[at].pointer};
        const auto& counts = reinterpret_cast<const format::ReferenceBlock&>(
            exam.metadata_block(exam.metadata_index(pointer.offset())));
        for (u32 i = team.lane(); i < blocks_per_frame; i += Team::width) {
            const u32 found = exam.references[at * blocks_per_frame + i];
            if (counts.extra[i] != (found > 1 ? found - 1 : 0)) exam.flaw();
        }
    }
};

/// Checks that the blocks in use in 32 frames are those that were claimed.
struct CompareFrames {
    Exam exam;

    template <class Team, class Sums>
    WARREN_HD void operator()(const Team& team, const Sums& /*sums*/, u64 part) const {
        u64 blocks = 0;
        for (u64 word = part * 256 + team.lane(); word < part * 256 + 256; word += Team::width) {
            if (word >= exam.facts.frame_count * 8) break;
            if (exam.used[word] != exam.owned[word]) exam.flaw();
            blocks += static_cast<u64>(hd::popcount(exam.used[word]));
        }
        if (blocks != 0) relaxed_add(exam.state->blocks_used, blocks);
    }
};

}  // namespace warren::ops::examine
