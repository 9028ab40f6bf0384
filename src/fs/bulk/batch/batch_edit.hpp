// SPDX-License-Identifier: Apache-2.0
// Few moves or removals, made in place: names are erased from leaves and inserted into leaves that
// have room, and no directory is rewritten. The ends are sorted by directory and hash, so those of
// one leaf are contiguous; the first of them handles the leaf's and its directory's counters. A
// directory without a leaf gets one, and one whose only leaf becomes empty frees it. One that loses
// all its names frees all its leaves and the nodes above them.
//
// If anything does not fit (a leaf too full, one leaf of several that becomes empty), all
// directories are rewritten instead.
//
// Invariant: PlanEdits changes nothing but dirty marks; WriteEdits cannot fail.
#pragma once

#include "fs/bulk/batch/batch_write.hpp"

namespace warren::ops::batch {

/// What a batch does to one leaf, or to a directory that gets its first one.
struct LeafEdits {
    u32 removed = 0;
    u32 inserted = 0;
    u32 bytes_out = 0;  // of names, padded
    u32 bytes_in = 0;

    static constexpr u32 bits = 16;  // of each in a word: a leaf has some hundred names in 4 KiB
    static WARREN_HD LeafEdits unpacked(u64 word) {
        const auto part = [&](u32 i) { return static_cast<u32>(word >> i * bits & 0xffff); };
        return {part(0), part(1), part(2), part(3)};
    }
    /// The packed edits of one end with a name of `length` bytes; packed edits can be added.
    static WARREN_HD u64 packed_of(bool is_source, u32 length) {
        const u64 out = 1 | u64{padded(length)} << 2 * bits;
        return is_source ? out : out << bits;
    }
};

/// A phase over ends that are carried out, by place in the order.
struct EditPhase : Phase {
    WARREN_HD void give_up() const { relaxed_store(b.state->must_rewrite, 1); }
    WARREN_HD bool is_edit(u64 e) const {
        const u64 item = b.item_of(e);
        return runs(item) && b.does[item] != 0;
    }
    WARREN_HD BatchDirectory& directory_of(u64 e) const { return b.directories[b.directory_of[e]]; }
    WARREN_HD Inode& inode_at(const BatchDirectory& of) const {
        return *reinterpret_cast<Inode*>(store.base + of.number * format::inode_size);
    }
    WARREN_HD bool has_one_leaf(const BatchDirectory& of) const {
        const Inode& at = inode_at(of);
        return relaxed_load(at.height) == 1 && relaxed_load(at.area_count) == 1;
    }
    WARREN_HD DirectoryLeaf& leaf_at_place(u64 place) const {
        return *reinterpret_cast<DirectoryLeaf*>(store.base + place);
    }
};

/// By place in the order: where in its leaf the end's name is inserted; for the first end of each
/// leaf, whether all edits of the leaf can be made in place. Notes in `sums` the place of the first
/// end of the leaf (for erased names, of any earlier one), in `offsets` where the name is written
/// in the heap, in `sort_keys` what is done to the leaf, and in `leaf_of` which of the new blocks a
/// first leaf will be.
struct PlanEdits : EditPhase {
    /// The edits of the ends of a leaf on one side of an end, and the position of the farthest.
    struct Neighbours {
        u64 edits;  // packed
        u32 farthest;
    };

    /// Reads the ends of the leaf of `e` before p, nearest first, or those from p on: four at a
    /// time, so that their loads overlap. If the `nearest` is enough, the farthest is any one, or
    /// p. Not inlined, so that its code exists once; masks instead of branches, so that the threads
    /// of a warp do not diverge.
    WARREN_HD WARREN_NOINLINE Neighbours look_beside(u32 p, u32 e, bool is_back,
                                                     bool nearest) const {
        constexpr u32 together = 4;
        const u32 directory = b.directory_of[e];
        const u64 place = b.leaf_places[e];
        const u32 begin = static_cast<u32>(b.begin);
        const u32 end = static_cast<u32>(limit());
        // Every second end of a move is its target.
        const u32 target_bit = b.shape.kind == BatchKind::remove ? 0 : 1;
        const u32 count = is_back ? p : static_cast<u32>(b.shape.ends()) - p;
        const auto at = [&](u32 step) { return is_back ? p - 1 - step : p + step; };
        Neighbours found{0, p};
        for (u32 base = 0; base < count; base += together) {
            u32 others[together];
            u64 parts[together];
            u32 edits = 0;
            u32 is_outside = 0;
            for (u32 i = 0; i < together; ++i)
                others[i] = b.ends_in_order[at(base + i < count ? base + i : base)];
            for (u32 i = 0; i < together; ++i) {
                const u32 other = others[i];
                const u32 item = static_cast<u32>(b.item_of(other));
                const bool does = (b.does[item] != 0) & (item >= begin) & (item < end);
                const bool is_beside = (base + i < count) & (b.directory_of[other] == directory);
                const bool is_elsewhere = does & (b.leaf_places[other] != place);
                parts[i] = LeafEdits::packed_of((other & target_bit) == 0, b.ends[other].length());
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

    /// The slot with `rank` free ones before it, or slot_none.
    WARREN_HD u32 free_slot_of(const DirectoryLeaf& leaf, u32 rank) const {
        constexpr u32 together = 16;  // loads under way at once
        static_assert(format::leaf_entries_max % together == 0);
        for (u32 base = 0; base < format::leaf_entries_max; base += together) {
            u64 targets[together];
            for (u32 i = 0; i < together; ++i)
                targets[i] = relaxed_load(leaf.slots[base + i].target);
            for (u32 i = 0; i < together; ++i) {
                if ((targets[i] & BatchEnd::number_mask) == 0 && rank-- == 0) return base + i;
            }
        }
        return slot_none;
    }

    /// A directory's first leaf.
    WARREN_HD void plan_new_leaf(u64 p, const LeafEdits& edits) const {
        if (edits.inserted > format::leaf_entries_max || edits.bytes_in > format::leaf_heap_bytes) {
            return give_up();
        }
        const u32 block =
            device_atomic<u32>(b.state->new_blocks).fetch_add(1, hd::memory_order_relaxed);
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
        count_up(b.state->inode_blocks);  // one more block will be dirty
        if (counts.count + edits.inserted != edits.removed) return;
        count_up(b.state->blocks_end);
        if (has_one_leaf(of)) return;
        if (b.shape.kind != BatchKind::remove) return give_up();
        count_up(of.emptied);
    }

    WARREN_HD void operator()(u64 p) const {
        const u32 e = b.ends_in_order[p];
        if (has_failed() || !is_edit(e)) return;
        const u64 place = b.leaf_places[e];
        const DirectoryLeaf& leaf = leaf_at_place(place);
        const bool is_source = b.is_source(e);
        const Neighbours before = look_beside(static_cast<u32>(p), e, true, is_source);
        const u32 first = before.farthest;
        b.sums[p] = first;
        if (b.shape.kind == BatchKind::remove) {
            count_up(directory_of(e).edits);
        } else if (is_source) {
            mark_moved(e);
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

    /// Marks the inode that moves; harmless if the move is not made after all.
    WARREN_HD void mark_moved(u64 e) const {
        LaneOperation op(ThreadTeam{}, store);
        const Result<InodeRef> inode = inode_of(op, b.targets[e] & BatchEnd::number_mask);
        if (inode) return op.mark_dirty(inode->block_place());
        fail(inode.code() == Errc::stale ? Errc::corrupt : inode.code(), op.needed_place);
    }
};

/// By directory: if some leaves become empty, whether all do.
struct PlanEmptied : EditPhase {
    static constexpr u32 height_max = 2;  // nodes right below the root are found from the root

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
        count_up(b.state->blocks_end, nodes);
        relaxed_store(b.directories[s].edits, of.emptied);  // from here on: leaves to be freed
    }
};

/// Once: forgets what was planned.
struct DropEdits : Phase {
    WARREN_HD void operator()(u64 /*once*/) const {
        b.state->new_blocks = 0;
        b.state->blocks_end = 0;
        b.state->inode_blocks = 0;
        b.state->removed = 0;
        b.state->freed_tables = 0;
    }
};

/// By place in the order: makes the change. The first end of a leaf updates the counters of the
/// leaf and its directory.
struct WriteEdits : EditPhase {
    WARREN_HD void insert(DirectoryLeaf& leaf, u64 p, u64 e) const {
        const BatchEnd& end = b.ends[e];
        const u32 slot = b.slots[e];
        const u32 offset = b.offsets[p];
        const u64 moved = b.targets[e - 1];
        const auto entry = DirectorySlot::make(moved & BatchEnd::number_mask,
                                               static_cast<u8>(moved >> 48), end.length(), 0, 0);
        const u64* name = b.names + end.name;
        for (u32 i = 0; i < padded(end.length()) / 8; ++i)
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

    /// Links a directory to its first leaf, which is zero but for its entries.
    WARREN_HD void hang(const BatchDirectory& of, u32 block, const LeafEdits& edits) const {
        const u64 place = b.places[block];
        DirectoryLeaf& leaf = leaf_at_place(place);
        UseBlocks{{b, store}}(block);
        start_header(leaf.header, identity_of(BlockKind::directory_leaf, of));
        relaxed_store(leaf.count, edits.inserted);
        relaxed_store(leaf.heap_used, edits.bytes_in);
        relaxed_store(leaf.heap_live, edits.bytes_in);
        Inode& at = inode_at(of);
        store_pair(at.area.pairs[0], 0, BlockPointer::to(place, format::SizeClass::kib_4, false));
        resize(of, 1);
    }

    /// Sets the directory's tree to one leaf or none.
    WARREN_HD void resize(const BatchDirectory& of, u16 leaves) const {
        Inode& at = inode_at(of);
        const u64 step = leaves != 0 ? 1 : ~u64{0};
        relaxed_store(at.area_count, leaves);
        relaxed_store(at.height, static_cast<u8>(leaves));
        relaxed_store(at.blocks, relaxed_load(at.blocks) + step);
        relaxed_store(at.size, relaxed_load(at.size) + step * format::block_size);
        change_version(store, of.number * format::inode_size);
    }

    /// Called after one leaf of a directory that loses all leaves was freed: the thread that freed
    /// the last one frees the nodes and ends the tree.
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

    /// Updates the counters of a leaf; frees it if it is empty.
    WARREN_HD void count(BatchDirectory& of, u64 place, const LeafEdits& edits) const {
        DirectoryLeaf& leaf = leaf_at_place(place);
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

    /// Updates the directory for the change of one leaf; it may have several.
    WARREN_HD void count_names(const BatchDirectory& of, const LeafEdits& edits) const {
        Inode& at = inode_at(of);
        count_up(at.entries, u64{edits.inserted} - edits.removed);
        count_up(at.unlinks, edits.removed);
        relaxed_store(at.modified, b.header.now);
        relaxed_store(at.changed, b.header.now);
        LaneOperation op(ThreadTeam{}, store);
        op.mark_dirty(of.number * format::inode_size);
    }

    WARREN_HD void operator()(u64 p) const {
        const u64 e = b.ends_in_order[p];
        if (!is_edit(e)) return;
        const u64 first = b.sums[p];
        const u64 old_place = b.leaf_places[e];
        const u64 place = old_place != 0 ? old_place : b.places[b.leaf_of[first]];
        DirectoryLeaf& leaf = leaf_at_place(place);
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
