// SPDX-License-Identifier: Apache-2.0
// The middle phases of a batch: list the entries of each directory that is rewritten, old and new,
// in the order of their keys, and divide them into leaves.
//
// A "record" is an operand that is carried out, or an entry of an old leaf. When records are sorted
// by directory and key, an entry to be erased comes right before the operand that erases it, and
// both are left out.
//
// Invariant: these phases only read the store.
#pragma once

#include "fs/bulk/batch/batch_look.hpp"

namespace warren::ops::batch {

/// Per directory: lists the blocks that the root of its tree points to, if it is rewritten.
struct ListRoots : Phase {
    WARREN_HD void list(u64 s, const TreePair& pair, u32 height) const {
        const BlockPointer child{relaxed_load(pair.child.raw)};
        if (!child.is_valid()) return fail(Errc::corrupt);
        const u32 index = relaxed_add(b.state->blocks_end, 1);
        if (index >= b.blocks_max) return fail(Errc::corrupt);
        b.blocks[index] = {child.offset(), static_cast<u32>(s), static_cast<u16>(height), 0};
        relaxed_add(b.directories[s].old_blocks, 1);
        if (height > 0) return;
        const u32 leaf = relaxed_add(b.state->old_leaves, 1);
        b.leaf_blocks[leaf] = index;
    }

    WARREN_HD void operator()(u64 s) const {
        if (s >= b.state->directories || has_failed()) return;
        const BatchDirectory& directory = b.directories[s];
        if (directory.is_rewritten == 0) return;
        LaneOperation op(ThreadTeam{}, store);
        const Result<InodeRef> inode = inode_of(op, directory.number);
        if (!inode) return fail(Errc::corrupt);
        const Result<Pairs> root = root_pairs(op, *inode);
        if (!root) return fail(root.code());
        for (u32 i = 0; i < root->count; ++i)
            list(s, root->pairs[i], root->height - 1);
    }
};

/// Once: ends round `argument` of the list with the blocks listed so far.
struct EndRound : Phase {
    WARREN_HD void operator()(u64 /*once*/) const {
        b.state->round_end[argument] = b.state->blocks_end;
    }
};

/// The identity that a block of `kind` must have if a directory of the batch points to it.
WARREN_HD inline BlockIdentity identity_of(BlockKind kind, const BatchDirectory& owner) {
    return {kind, owner.generation, owner.number};
}

/// Per block: if it is a node of round `argument`, lists its children.
struct ListChildren : Phase {
    WARREN_HD void operator()(u64 i) const {
        const u32 begin = argument == 0 ? 0 : b.state->round_end[argument - 1];
        if (has_failed() || i < begin || i >= b.state->round_end[argument]) return;
        const BatchBlock& at = b.blocks[i];
        if (at.height == 0) return;
        LaneOperation op(ThreadTeam{}, store);
        const Result<Block*> block = op.pin(at.place);
        if (!block) return fail(block.code(), op.needed_place);
        Seen seen;
        static_cast<void>(op.observe(at.place, seen));
        const Result<Pairs> node = node_pairs(
            op, *block, seen, identity_of(BlockKind::directory_node, b.directories[at.directory]),
            at.height);
        if (!node) return fail(node.code());
        for (u32 j = 0; j < node->count; ++j)
            ListRoots{{b, store}}.list(at.directory, node->pairs[j], at.height - 1u);
    }
};

/// Per leaf: adds its count of entries. RecordOperands checks that as many were found.
struct CountOldEntries : Phase {
    WARREN_HD void operator()(u64 l) const {
        b.flags[l] = 0;
        if (has_failed() || l >= b.state->old_leaves) return;
        const BatchBlock& at = b.blocks[b.leaf_blocks[l]];
        LaneOperation op(ThreadTeam{}, store);
        const Result<Block*> block = op.pin(at.place);
        if (!block) return fail(block.code(), op.needed_place);
        const DirectoryLeaf& leaf = block_at<DirectoryLeaf>(store, at.place);
        const bool is_sound = is_own_block(
            leaf.header, identity_of(BlockKind::directory_leaf, b.directories[at.directory]));
        const u32 count = relaxed_load(leaf.count);
        if (!is_sound || count > format::leaf_entries_max) return fail(Errc::corrupt);
        b.flags[l] = count;
        relaxed_add(b.state->entries, count);
    }
};

// The number of a record of an old leaf: the leaf's index times this, plus the slot.
inline constexpr u32 slots_a_leaf = 128;

/// Per operand, by position: its record, if the operand is carried out.
struct RecordOperands : Phase {
    WARREN_HD void operator()(u64 p) const {
        if (p == 0 && b.state->recorded != b.state->entries) fail(Errc::corrupt);
        const u64 e = b.operands_in_order[p];
        const u64 item = b.item_of(e);
        const bool is_in = !has_failed() && runs(item) && b.does[item] != 0;
        b.record_directories[p] = is_in ? b.directory_of[e] : batch_none;
        b.record_keys[p] = b.keys[e] << 1 | (b.is_source(e) ? 1 : 0);
        b.sort_keys[p] = b.record_keys[p];
        b.order[p] = static_cast<u32>(p);
    }
};

/// The slots of a leaf that one call records.
inline constexpr u32 slots_a_part = 8;
inline constexpr u32 parts_a_leaf = format::leaf_entries_max / slots_a_part;
static_assert(parts_a_leaf * slots_a_part == format::leaf_entries_max);

/// Per part of an old leaf: records its entries. They fill the leaf's share of the records from its
/// end, in any order, because they are sorted next.
struct RecordLeaves : Phase {
    WARREN_HD void operator()(u64 part) const {
        const u64 l = part / parts_a_leaf;
        if (has_failed() || l >= b.state->old_leaves) return;
        const u32 first = static_cast<u32>(part % parts_a_leaf) * slots_a_part;
        const BatchBlock& at = b.blocks[b.leaf_blocks[l]];
        const DirectoryLeaf& leaf = block_at<DirectoryLeaf>(store, at.place);
        // The loads overlap.
        u64 targets[slots_a_part];
        for (u32 i = 0; i < slots_a_part; ++i)
            targets[i] = relaxed_load(leaf.slots[first + i].target);
        u32 count = 0;
        for (u32 i = 0; i < slots_a_part; ++i)
            count += (targets[i] & BatchOperand::number_mask) != 0 ? 1 : 0;
        if (count == 0) return;
        const u32 left = device_atomic<u32>(b.flags[l]).fetch_sub(count, hd::memory_order_relaxed);
        u64 r = b.shape.operands() + b.sums[l] + left - count;
        if (left < count || r + count > b.records_max) return fail(Errc::corrupt);
        relaxed_add(b.state->recorded, count);
        for (u32 i = 0; i < slots_a_part; ++i) {
            if ((targets[i] & BatchOperand::number_mask) == 0) continue;
            b.record_directories[r] = at.directory;
            b.record_keys[r] = read_key(leaf, first + i) << 1;
            b.sort_keys[r] = b.record_keys[r];
            b.order[r] = static_cast<u32>(r);
            b.record_slots[r] = static_cast<u32>(l) * slots_a_leaf + first + i;
            ++r;
        }
    }
};

/// Per record, by position in the order of keys: sets the second sort key, the directory.
struct RecordKeyByDirectory : Phase {
    WARREN_HD void operator()(u64 q) const {
        if (has_failed()) return;
        const u32 s = b.record_directories[b.order[q]];
        b.sort_keys[q] = s == batch_none ? b.state->directories : s;
    }
};

/// Per record, by position in sorted order, of `argument` records: whether it is an entry of the
/// new tree.
struct MarkEntries : Phase {
    WARREN_HD void operator()(u64 q) const {
        b.flags[q] = 0;
        if (has_failed()) return;
        const u32 r = b.order[q];
        const u32 s = b.record_directories[r];
        if (s == batch_none || (b.record_keys[r] & 1) != 0) return;
        if (q + 1 < argument) {
            const u32 next = b.order[q + 1];
            const bool goes =
                b.record_directories[next] == s && b.record_keys[next] == (b.record_keys[r] | 1);
            if (goes) return;
        }
        b.flags[q] = 1;
    }
};

/// The length of the name of record `r`.
WARREN_HD inline u32 record_length(const Batch& b, const Store& store, u32 r) {
    if (r < b.shape.operands()) return b.operands[b.operands_in_order[r]].length();
    const u32 slot = b.record_slots[r];
    const BatchBlock& at = b.blocks[b.leaf_blocks[slot / slots_a_leaf]];
    return read_slot(block_at<DirectoryLeaf>(store, at.place), slot % slots_a_leaf).name_length();
}

// A leaf takes the entries that begin within this weight. The last one may extend beyond it. Both
// the heap and the slots suffice, whatever the lengths of the names.
inline constexpr u32 leaf_weight = format::leaf_heap_bytes - 256;
inline constexpr u32 entry_weight_min = 24;
static_assert(leaf_weight / entry_weight_min + 1 <= format::leaf_entries_max);

/// Per record, by position in sorted order, of `argument` records: compacts the entries, and stores
/// the weight of each.
struct GatherEntries : Phase {
    WARREN_HD void operator()(u64 q) const {
        if (q + 1 == argument) b.state->entries = b.sums[q] + b.flags[q];
        if (has_failed() || b.flags[q] == 0) return;
        const u32 c = b.sums[q];
        const u32 r = b.order[q];
        const u32 bytes = padded(record_length(b, store, r));
        b.entries[c] = r;
        b.offsets[c] = bytes;
        b.weights[c] = bytes < entry_weight_min ? entry_weight_min : bytes;
    }
};

/// The directory of entry `c`.
WARREN_HD inline u32 directory_of_entry(const Batch& b, u64 c) {
    return b.record_directories[b.entries[c]];
}

/// Per entry: stores where the entries of its directory begin and end.
struct BoundEntries : Phase {
    WARREN_HD void operator()(u64 c) const {
        if (has_failed() || c >= b.state->entries) return;
        const u32 s = directory_of_entry(b, c);
        if (c == 0 || directory_of_entry(b, c - 1) != s) {
            b.directories[s].entry_begin = static_cast<u32>(c);
        }
        if (c + 1 == b.state->entries || directory_of_entry(b, c + 1) != s) {
            b.directories[s].entry_end = static_cast<u32>(c + 1);
        }
    }
};

/// Per entry: whether a leaf begins with it. Requires: `weights` are running sums.
struct MarkLeaves : Phase {
    WARREN_HD void operator()(u64 c) const {
        b.flags[c] = 0;
        if (has_failed() || c >= b.state->entries) return;
        const u32 begin = b.directories[directory_of_entry(b, c)].entry_begin;
        const u32 base = b.weights[begin];
        const bool begins = c == begin || (b.weights[c] - base) / leaf_weight !=
                                              (b.weights[c - 1] - base) / leaf_weight;
        b.flags[c] = begins ? 1 : 0;
    }
};

/// Per entry: its leaf, and where the leaf begins.
struct NumberLeaves : Phase {
    WARREN_HD void operator()(u64 c) const {
        const u64 count = b.state->entries;
        if (has_failed() || c >= count) return;
        const u32 leaf = b.sums[c] + b.flags[c] - 1;
        b.leaf_of[c] = leaf;
        BatchDirectory& directory = b.directories[directory_of_entry(b, c)];
        if (b.flags[c] != 0) b.leaf_begin[leaf] = static_cast<u32>(c);
        if (c == directory.entry_begin) directory.leaf_begin = leaf;
        if (c + 1 == directory.entry_end) directory.leaf_end = leaf + 1;
        if (c + 1 == count) b.state->leaves = leaf + 1;
    }
};

/// Pairs in a new node: not all that fit, so that some can be added before it must be split.
inline constexpr u32 new_node_pairs = 200;

/// Per directory: counts the blocks of its new tree.
struct CountBlocks : Phase {
    WARREN_HD void operator()(u64 s) const {
        b.flags[s] = 0;
        if (has_failed() || s >= b.state->directories) return;
        BatchDirectory& directory = b.directories[s];
        if (directory.is_rewritten == 0) return;
        const u32 leaves = directory.leaf_end - directory.leaf_begin;
        const auto above = [](u32 below) {
            const bool fits = below <= format::root_pairs_max;
            return fits ? 0u : (below + new_node_pairs - 1) / new_node_pairs;
        };
        directory.nodes = above(leaves);
        directory.parents = above(directory.nodes);
        if (directory.parents > format::root_pairs_max) return fail(Errc::not_supported);
        b.flags[s] = leaves + directory.nodes + directory.parents;
    }
};

/// Per directory: assigns its range of the new blocks.
struct DealBlocks : Phase {
    WARREN_HD void operator()(u64 s) const {
        if (has_failed() || s >= b.state->directories) return;
        b.directories[s].block_begin = b.sums[s];
        if (s + 1 == b.state->directories) b.state->new_blocks = b.sums[s] + b.flags[s];
    }
};

}  // namespace warren::ops::batch
