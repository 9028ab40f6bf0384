// SPDX-License-Identifier: Apache-2.0
// A small number of moves or removals, made in place: names are erased from leaves and inserted
// into leaves that have room, and no directory is rewritten. Operands are sorted by directory and
// hash, so those of a leaf are contiguous. The thread that handles the first operand of a leaf also
// updates the counters of the leaf and its directory. A directory without a leaf gets one. A
// directory whose only leaf becomes empty frees it; one that loses all its names frees all its
// leaves and nodes.
//
// If something does not fit (a leaf is too full, or one leaf of several would become empty), all
// directories are rewritten instead.
//
// Invariant: PlanEdits changes nothing in the store but dirty marks; WriteEdits cannot fail.
#pragma once

#include "fs/bulk/batch/batch_write.hpp"

namespace warren::ops::batch {

/// The changes of a batch to one leaf, or to a directory that gets its first leaf.
struct LeafEdits {
    u32 removed = 0;
    u32 inserted = 0;
    u32 bytes_out = 0;  // length of the removed names, each padded
    u32 bytes_in = 0;

    // Of each packed field. Sums fit: a directory gets at most edits_in_place_max moves, and a leaf
    // loses at most its entries.
    static constexpr u32 bits = 16;
    static WARREN_HD LeafEdits unpacked(u64 word) {
        const auto part = [&](u32 i) { return static_cast<u32>(word >> i * bits & 0xffff); };
        return {part(0), part(1), part(2), part(3)};
    }
    /// The change by one operand, packed. Packed changes can be added.
    static WARREN_HD u64 packed_of(bool is_source, u32 length) {
        const u64 out = 1 | u64{padded(length)} << 2 * bits;
        return is_source ? out : out << bits;
    }
};

/// A phase over the operands that are carried out, by their position in sorted order.
struct EditPhase : Phase {
    WARREN_HD void give_up() const { relaxed_store(b.state->must_rewrite, 1); }
    WARREN_HD bool is_edit(u64 e) const {
        const u64 item = b.item_of(e);
        return runs(item) && b.does[item] != 0;
    }
    WARREN_HD BatchDirectory& directory_of(u64 e) const { return b.directories[b.directory_of[e]]; }
    WARREN_HD Inode& inode_at(const BatchDirectory& of) const {
        return block_at<Inode>(store, of.number * format::inode_size);
    }
    WARREN_HD bool has_one_leaf(const BatchDirectory& of) const {
        const Inode& at = inode_at(of);
        return relaxed_load(at.height) == 1 && relaxed_load(at.area_count) == 1;
    }
};

/// Per operand, by position: plans where in its leaf the name is inserted. Per leaf, at its first
/// operand: checks whether all changes of the leaf can be made in place. Stores in `sums` the
/// position of the leaf's first operand (for an erased name, of any earlier one), in `offsets`
/// where in the heap the name goes, in `sort_keys` the packed changes of the leaf, and in `leaf_of`
/// the number of the new block that becomes a directory's first leaf.
struct PlanEdits : EditPhase {
    /// The packed changes of a leaf by the operands on one side of a position, and the position of
    /// the farthest of these operands.
    struct Neighbours {
        u64 edits;  // packed
        u32 farthest;
    };

    /// Reads the operands of the leaf of operand `e` before position p, nearest first, or those
    /// from p on. Reads four at a time, so that their loads overlap. With `nearest` it stops after
    /// the first four that include one; `farthest` is p if there is none. Not inlined, so that its
    /// code exists once. Uses masks instead of branches, so that the threads of a warp do not
    /// diverge.
    WARREN_HD WARREN_NOINLINE Neighbours look_beside(u32 p, u32 e, bool is_back,
                                                     bool nearest) const {
        constexpr u32 together = 4;
        const u32 directory = b.directory_of[e];
        const u64 place = b.leaf_places[e];
        const u32 begin = static_cast<u32>(b.begin);
        const u32 end = static_cast<u32>(limit());
        // Every second operand of a move is its target.
        const u32 target_bit = b.shape.kind == BatchKind::remove ? 0 : 1;
        const u32 count = is_back ? p : static_cast<u32>(b.shape.operands()) - p;
        const auto at = [&](u32 step) { return is_back ? p - 1 - step : p + step; };
        Neighbours found{0, p};
        for (u32 base = 0; base < count; base += together) {
            u32 others[together];
            u64 parts[together];
            u32 edits = 0;
            u32 is_outside = 0;
            for (u32 i = 0; i < together; ++i)
                others[i] = b.operands_in_order[at(base + i < count ? base + i : base)];
            for (u32 i = 0; i < together; ++i) {
                const u32 other = others[i];
                const u32 item = static_cast<u32>(b.item_of(other));
                const bool does = (b.does[item] != 0) & (item >= begin) & (item < end);
                const bool is_beside = (base + i < count) & (b.directory_of[other] == directory);
                const bool is_elsewhere = does & (b.leaf_places[other] != place);
                parts[i] =
                    LeafEdits::packed_of((other & target_bit) == 0, b.operands[other].length());
                edits |= u32{does} << i;
                is_outside |= static_cast<u32>(!is_beside | is_elsewhere) << i;
            }
            const u32 taken = edits & ((is_outside & (~is_outside + 1)) - 1);
            for (u32 i = 0; i < together; ++i)
                found.edits += (taken >> i & 1) != 0 ? parts[i] : 0;
            if (taken != 0)
                found.farthest = at(base + 31 - static_cast<u32>(hd::countl_zero(taken)));
            if (is_outside != 0 || (nearest && taken != 0)) break;
        }
        return found;
    }

    /// The free slot that has `rank` free slots before it, or slot_none.
    WARREN_HD u32 free_slot_of(const DirectoryLeaf& leaf, u32 rank) const {
        constexpr u32 together = 16;  // loads in flight at once
        static_assert(format::leaf_entries_max % together == 0);
        for (u32 base = 0; base < format::leaf_entries_max; base += together) {
            u64 targets[together];
            for (u32 i = 0; i < together; ++i)
                targets[i] = relaxed_load(leaf.slots[base + i].target);
            for (u32 i = 0; i < together; ++i) {
                if ((targets[i] & BatchOperand::number_mask) == 0 && rank-- == 0) return base + i;
            }
        }
        return slot_none;
    }

    /// Plans the first leaf of a directory.
    WARREN_HD void plan_new_leaf(u64 p, const LeafEdits& edits) const {
        if (edits.inserted > format::leaf_entries_max || edits.bytes_in > format::leaf_heap_bytes) {
            return give_up();
        }
        const u32 block = relaxed_add(b.state->new_blocks, 1);
        if (block >= b.places_max) return give_up();
        b.places[block] = 0;
        b.leaf_of[p] = block;
    }

    WARREN_HD void plan_leaf(BatchDirectory& of, const DirectoryLeaf& leaf,
                             const LeafEdits& edits) const {
        const LeafCounts counts = read_counts(leaf);
        if (counts.count + edits.inserted > format::leaf_entries_max ||
            counts.heap_used + edits.bytes_in > format::leaf_heap_bytes) {
            return give_up();
        }
        relaxed_add(b.state->inode_blocks, 1);  // this leaf will be dirty
        if (counts.count + edits.inserted != edits.removed) return;
        relaxed_add(b.state->blocks_end, 1);
        if (has_one_leaf(of)) return;
        if (b.shape.kind != BatchKind::remove) return give_up();
        relaxed_add(of.emptied, 1);
    }

    WARREN_HD void operator()(u64 p) const {
        const u32 e = b.operands_in_order[p];
        if (has_failed() || !is_edit(e)) return;
        const u64 place = b.leaf_places[e];
        const DirectoryLeaf& leaf = block_at<DirectoryLeaf>(store, place);
        const bool is_source = b.is_source(e);
        const Neighbours before = look_beside(static_cast<u32>(p), e, true, is_source);
        const u32 first = before.farthest;
        b.sums[p] = first;
        if (b.shape.kind == BatchKind::remove) {
            relaxed_add(directory_of(e).edits, 1);
        } else if (is_source) {
            MarkMoved{{b, store}}(b.item_of(e));
        } else {
            const LeafEdits edits = LeafEdits::unpacked(before.edits);
            const u32 heap_used = place == 0 ? 0 : relaxed_load(leaf.heap_used);
            b.offsets[p] = heap_used + edits.bytes_in;
            b.slots[e] = place == 0 ? edits.inserted : free_slot_of(leaf, edits.inserted);
            if (b.slots[e] == slot_none) give_up();
        }
        if (first != p) return;
        b.sort_keys[p] = look_beside(first, e, false, false).edits;
        const LeafEdits edits = LeafEdits::unpacked(b.sort_keys[p]);
        if (place == 0) {
            plan_new_leaf(p, edits);
        } else {
            plan_leaf(directory_of(e), leaf, edits);
        }
    }
};

/// Per directory: if some of its leaves become empty, checks whether all do.
struct PlanEmptied : EditPhase {
    static constexpr u32 height_max = 2;  // the addresses of all nodes are then in the root

    WARREN_HD void operator()(u64 s) const {
        if (s >= b.state->directories || has_failed()) return;
        const BatchDirectory& of = b.directories[s];
        if (of.emptied == 0) return;
        const Inode& at = inode_at(of);
        const u32 height = relaxed_load(at.height);
        const u32 nodes = height == height_max ? relaxed_load(at.area_count) : 0;
        const u64 entries = relaxed_load(at.entries) & ~format::entries_dying;
        bool is_all = entries == of.edits && height <= height_max &&
                      nodes <= format::root_pairs_max &&
                      relaxed_load(at.blocks) == of.emptied + nodes;
        for (u32 i = 0; i < nodes && is_all; ++i) {
            const BlockPointer node{relaxed_load(at.area.pairs[i].child.raw)};
            is_all = node.is_valid() && node.offset() < store.size_bytes;
        }
        if (!is_all) return give_up();
        relaxed_add(b.state->blocks_end, nodes);
        relaxed_store(b.directories[s].edits, of.emptied);  // from here on: leaves to be freed
    }
};

/// Once: discards the plan.
struct DropEdits : Phase {
    WARREN_HD void operator()(u64 /*once*/) const {
        b.state->new_blocks = 0;
        b.state->blocks_end = 0;
        b.state->inode_blocks = 0;
        b.state->marked = 0;
        b.state->removed = 0;
        b.state->freed_tables = 0;
    }
};

/// Per operand, by position: makes the change. The thread of a leaf's first operand updates the
/// counters of the leaf and its directory.
struct WriteEdits : EditPhase {
    WARREN_HD void insert(DirectoryLeaf& leaf, u64 p, u64 e) const {
        const BatchOperand& operand = b.operands[e];
        const u32 slot = b.slots[e];
        const u32 offset = b.offsets[p];
        const u64 moved = b.targets[e - 1];
        const auto entry =
            DirectorySlot::make(moved & BatchOperand::number_mask, static_cast<u8>(moved >> 48),
                                operand.length(), 0, 0);
        const u64* name = b.names + operand.name;
        for (u32 i = 0; i < padded(operand.length()) / 8; ++i)
            relaxed_store(leaf.heap[offset / 8 + i], name[i]);
        write_slot(leaf, slot, entry.target, b.keys[e], offset);
    }

    /// Updates the inode whose name is erased.
    WARREN_HD void end_source(u64 item) const {
        if (b.shape.kind == BatchKind::move) {
            StampMoved{{b, store}}(item);
        } else {
            FreeRemoved{{b, store}}(item);
        }
    }

    /// Makes block number `block` the first leaf of a directory. The block is zero except for its
    /// entries.
    WARREN_HD void hang(const BatchDirectory& of, u32 block, const LeafEdits& edits) const {
        const u64 place = b.places[block];
        DirectoryLeaf& leaf = block_at<DirectoryLeaf>(store, place);
        UseBlocks{{b, store}}(block);
        start_header(leaf.header, identity_of(BlockKind::directory_leaf, of));
        relaxed_store(leaf.count, edits.inserted);
        relaxed_store(leaf.heap_used, edits.bytes_in);
        relaxed_store(leaf.heap_live, edits.bytes_in);
        Inode& at = inode_at(of);
        store_pair(at.area.pairs[0], 0, BlockPointer::to(place));
        resize(of, 1);
    }

    /// Records that the directory's tree is one leaf, or empty.
    WARREN_HD void resize(const BatchDirectory& of, u16 leaves) const {
        Inode& at = inode_at(of);
        const u64 step = leaves != 0 ? 1 : ~u64{0};
        relaxed_store(at.area_count, leaves);
        relaxed_store(at.height, static_cast<u8>(leaves));
        relaxed_store(at.blocks, relaxed_load(at.blocks) + step);
        relaxed_store(at.size, relaxed_load(at.size) + step * format::block_size);
        change_version(store, of.number * format::inode_size);
    }

    /// Called after one leaf of a directory that loses all its leaves was freed. The thread that
    /// frees the last one also frees the nodes and empties the root.
    WARREN_HD void drop_leaf(LaneOperation& op, BatchDirectory& of) const {
        if (device_atomic<u32>(of.edits).fetch_sub(1, hd::memory_order_relaxed) != 1) return;
        Inode& at = inode_at(of);
        const u32 nodes = relaxed_load(at.height) > 1 ? relaxed_load(at.area_count) : 0;
        for (u32 i = 0; i < nodes; ++i) {
            const BlockPointer node{relaxed_load(at.area.pairs[i].child.raw)};
            free_metadata(op, node.offset());
            change_version(store, node.offset());
        }
        const u64 blocks = relaxed_load(at.blocks);
        relaxed_store(at.area_count, static_cast<u16>(0));
        relaxed_store(at.height, static_cast<u8>(0));
        relaxed_store(at.blocks, 0);
        relaxed_store(at.size, relaxed_load(at.size) - blocks * format::block_size);
        change_version(store, of.number * format::inode_size);
    }

    /// Updates the counters of a leaf, and frees the leaf if it is empty.
    WARREN_HD void count(BatchDirectory& of, u64 place, const LeafEdits& edits) const {
        DirectoryLeaf& leaf = block_at<DirectoryLeaf>(store, place);
        const LeafCounts counts = read_counts(leaf);
        const u32 left = counts.count + edits.inserted - edits.removed;
        LaneOperation op(ThreadTeam{}, store);
        if (left == 0) {
            free_metadata(op, place);
            if (of.emptied == 0) {
                resize(of, 0);
            } else {
                drop_leaf(op, of);
            }
        } else {
            relaxed_store(leaf.count, left);
            relaxed_store(leaf.heap_used, counts.heap_used + edits.bytes_in);
            relaxed_store(leaf.heap_live, counts.heap_live + edits.bytes_in - edits.bytes_out);
            op.mark_dirty(place);
        }
        change_version(store, place);
    }

    /// Adds the changes of one of the directory's leaves to its counters.
    WARREN_HD void count_names(const BatchDirectory& of, const LeafEdits& edits) const {
        Inode& at = inode_at(of);
        relaxed_add(at.entries, u64{edits.inserted} - edits.removed);
        relaxed_store(at.modified, b.header.now);
        relaxed_store(at.changed, b.header.now);
        LaneOperation op(ThreadTeam{}, store);
        op.mark_dirty(of.number * format::inode_size);
    }

    WARREN_HD void operator()(u64 p) const {
        const u64 e = b.operands_in_order[p];
        if (!is_edit(e)) return;
        const u64 first = b.sums[p];
        const u64 old_place = b.leaf_places[e];
        const u64 place = old_place != 0 ? old_place : b.places[b.leaf_of[first]];
        DirectoryLeaf& leaf = block_at<DirectoryLeaf>(store, place);
        if (b.is_source(e)) {
            clear_slot(leaf, b.slots[e]);
            end_source(b.item_of(e));
        } else {
            insert(leaf, p, e);
        }
        if (first != p) return;
        BatchDirectory& of = directory_of(e);
        const LeafEdits edits = LeafEdits::unpacked(b.sort_keys[p]);
        if (old_place == 0) {
            hang(of, b.leaf_of[p], edits);
        } else {
            count(of, place, edits);
        }
        count_names(of, edits);
    }
};

}  // namespace warren::ops::batch
