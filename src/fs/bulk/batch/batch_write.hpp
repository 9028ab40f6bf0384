// SPDX-License-Identifier: Apache-2.0
// The last phases of a batch: write the new trees and inodes, and free the old trees. They cannot
// fail.
//
// Invariant: either all of them run or none; none if an earlier phase has failed.
#pragma once

#include "fs/bulk/batch/batch_space.hpp"

namespace warren::ops::batch {

/// Raises the version of `place`: threads that read there before read again. No lock is needed.
WARREN_HD inline void change_version(const Store& store, u64 place) {
    relaxed_add(store.versions[stripe_of(place)], 2);
}

/// Per word of the new blocks: clears it.
struct ClearBlocks : Phase {
    WARREN_HD void operator()(u64 w) const {
        constexpr u64 words = format::block_size / 8;
        auto* block = reinterpret_cast<u64*>(store.base + b.places[w / words]);
        relaxed_store(block[w % words], 0);
    }
};

/// Per new block: marks it as in memory, in use and dirty.
struct UseBlocks : Phase {
    WARREN_HD void operator()(u64 k) const {
        const u64 place = b.places[k];
        make_resident(store, place);
        LaneOperation op(ThreadTeam{}, store);
        use_blocks(op, place, 1);
        op.mark_dirty(place);
        unreserve(store, place, 1);
    }
};

/// Per new leaf: writes its header, and the pair that points to it. The call for the first leaf of
/// a node also initializes the node.
struct StartLeaves : Phase {
    WARREN_HD u64 place_of(const BatchDirectory& of, u32 ordinal) const {
        return b.places[of.block_begin + ordinal];
    }
    WARREN_HD TreePair* root_of(const BatchDirectory& of) const {
        return block_at<Inode>(store, of.number * format::inode_size).area.pairs;
    }

    WARREN_HD void start_node(const BatchDirectory& of, u64 place, u32 index, u32 below,
                              u32 height) const {
        TreeNode& node = block_at<TreeNode>(store, place);
        start_header(node.header, identity_of(BlockKind::directory_node, of));
        const u32 left = below - index * new_node_pairs;
        relaxed_store(node.count, left < new_node_pairs ? left : new_node_pairs);
        relaxed_store(node.height, height);
    }

    /// Stores the pair for child number `index` in the node above it, or in the root.
    WARREN_HD void hang(const BatchDirectory& of, u32 index, u64 place, u64 key, u32 first_above,
                        u32 above, bool is_node) const {
        const BlockPointer child = BlockPointer::to(place, is_node);
        TreePair* pairs = root_of(of);
        u32 at = index;
        if (above > 0) {
            pairs =
                block_at<TreeNode>(store, place_of(of, first_above + index / new_node_pairs)).pairs;
            at = index % new_node_pairs;
        }
        store_pair(pairs[at], key, child);
    }

    WARREN_HD void operator()(u64 l) const {
        const u32 first = b.leaf_begin[l];
        const u32 record = b.entries[first];
        const BatchDirectory& of = b.directories[b.record_directories[record]];
        const u32 index = static_cast<u32>(l) - of.leaf_begin;
        const u32 leaves = of.leaf_end - of.leaf_begin;
        const u32 end = l + 1 == b.state->leaves ? b.state->entries : b.leaf_begin[l + 1];
        const u64 place = place_of(of, index);
        auto& leaf = block_at<DirectoryLeaf>(store, place);
        start_header(leaf.header, identity_of(BlockKind::directory_leaf, of));
        const u32 heap = b.offsets[end - 1] - b.offsets[first] +
                         padded(record_length(b, store, b.entries[end - 1]));
        relaxed_store(leaf.count, end - first);
        relaxed_store(leaf.heap_used, heap);
        relaxed_store(leaf.heap_live, heap);
        // The lowest key of a tree is 0; that of any other leaf is the key of its first entry.
        const u64 key = index == 0 ? 0 : b.record_keys[record] >> 1;
        hang(of, index, place, key, leaves, of.nodes, false);
        if (of.nodes == 0 || index % new_node_pairs != 0) return;
        const u32 node = index / new_node_pairs;
        const u64 node_place = place_of(of, leaves + node);
        start_node(of, node_place, node, leaves, 1);
        hang(of, node, node_place, key, leaves + of.nodes, of.parents, true);
        if (of.parents == 0 || node % new_node_pairs != 0) return;
        const u32 parent = node / new_node_pairs;
        const u64 parent_place = place_of(of, leaves + of.nodes + parent);
        start_node(of, parent_place, parent, of.nodes, 2);
        hang(of, parent, parent_place, key, 0, 0, true);
    }
};

/// Per entry: writes its slot and its name into its new leaf.
struct WriteEntries : Phase {
    struct Source {
        u64 target;  // the first word of the slot
        const u64* name;
    };

    WARREN_HD Source of_operand(u64 e) const {
        const BatchOperand& operand = b.operands[e];
        const u64 item = b.item_of(e);
        u64 inode = 0;
        u8 type = 0;
        if (b.shape.makes_inodes()) {
            inode = b.numbers[b.rank[item]];
            const bool is_clone = b.shape.kind == BatchKind::clone;
            type = format::entry_type(is_clone ? b.made[item].mode : b.mode_of(item));
        } else {
            inode = b.targets[e - 1] & BatchOperand::number_mask;
            type = static_cast<u8>(b.targets[e - 1] >> 48);
        }
        return {DirectorySlot::make(inode, type, operand.length(), 0, 0).target,
                b.names + operand.name};
    }

    WARREN_HD Source of_slot(u32 slot) const {
        const u64 place = b.blocks[b.leaf_blocks[slot / slots_a_leaf]].place;
        const DirectoryLeaf& leaf = block_at<DirectoryLeaf>(store, place);
        const DirectorySlot entry = read_slot(leaf, slot % slots_a_leaf);
        return {entry.target, leaf.heap + entry.name_offset() / 8};
    }

    WARREN_HD void operator()(u64 c) const {
        const u32 r = b.entries[c];
        const BatchDirectory& of = b.directories[b.record_directories[r]];
        const u32 l = b.leaf_of[c];
        const u32 first = b.leaf_begin[l];
        const u32 slot = static_cast<u32>(c) - first;
        const u32 offset = b.offsets[c] - b.offsets[first];
        const u64 place = b.places[of.block_begin + l - of.leaf_begin];
        auto& leaf = block_at<DirectoryLeaf>(store, place);
        const bool is_new = r < b.shape.operands();
        const Source from =
            is_new ? of_operand(b.operands_in_order[r]) : of_slot(b.record_slots[r]);
        const u64 key = b.record_keys[r] >> 1;
        const u32 length = static_cast<u32>(from.target >> 56);
        write_slot(leaf, slot, from.target, key, offset);
        for (u32 i = 0; i < padded(length) / 8; ++i)
            relaxed_store(leaf.heap[offset / 8 + i], relaxed_load(from.name[i]));
    }
};

/// Per directory: writes its root and its counters.
struct FinishDirectories : Phase {
    WARREN_HD void operator()(u64 s) const {
        if (s >= b.state->directories) return;
        const BatchDirectory& of = b.directories[s];
        if (of.is_rewritten == 0) return;
        Inode& at = block_at<Inode>(store, of.number * format::inode_size);
        const u32 leaves = of.leaf_end - of.leaf_begin;
        const u32 below_root = of.parents > 0 ? of.parents : of.nodes > 0 ? of.nodes : leaves;
        const u32 height =
            (leaves > 0 ? 1u : 0u) + (of.nodes > 0 ? 1u : 0u) + (of.parents > 0 ? 1u : 0u);
        const u64 grown = u64{leaves} + of.nodes + of.parents - of.old_blocks;
        const u64 names = of.entry_end - of.entry_begin;
        relaxed_store(at.area_count, static_cast<u16>(below_root));
        relaxed_store(at.height, static_cast<u8>(height));
        relaxed_store(at.blocks, relaxed_load(at.blocks) + grown);
        relaxed_store(at.size, relaxed_load(at.size) + grown * format::block_size);
        relaxed_store(at.entries, (relaxed_load(at.entries) & format::entries_dying) | names);
        relaxed_store(at.links, relaxed_load(at.links) + of.new_directories);
        // A cloned directory keeps the time of its source.
        if (b.shape.kind != BatchKind::clone) relaxed_store(at.modified, b.header.now);
        relaxed_store(at.changed, b.header.now);
        LaneOperation op(ThreadTeam{}, store);
        op.mark_dirty(of.number * format::inode_size);
        change_version(store, of.number * format::inode_size);
    }
};

/// Per old block: frees it.
struct FreeBlocks : Phase {
    WARREN_HD void operator()(u64 i) const {
        LaneOperation op(ThreadTeam{}, store);
        free_metadata(op, b.blocks[i].place);
        change_version(store, b.blocks[i].place);
    }
};

/// Per word of the bitmaps: marks the assigned inodes as in use.
struct UseSlots : Phase {
    WARREN_HD void operator()(u64 w) const {
        const u32 created = b.state->created;
        u32 rank = b.sums[w];
        u64 taken = 0;
        for (u64 free = free_slots(b, store, w); free != 0 && rank < created; free &= free - 1) {
            taken |= free & (~free + 1);
            ++rank;
        }
        if (taken == 0) return;
        const u64 place = u64{b.frames[w / bitmap_words]} * format::frame_size;
        auto& bitmap = block_at<format::InodeBitmap>(store, place);
        u64& used = bitmap.used[w % bitmap_words];
        relaxed_store(used, relaxed_load(used) | taken);
        LaneOperation op(ThreadTeam{}, store);
        op.mark_dirty(place);
    }
};

/// Once: updates the counters, and sets aside the generations of the new inodes.
struct CountInodes : Phase {
    WARREN_HD void operator()(u64 /*once*/) const {
        StoreState& state = *store.state;
        const u64 created = b.state->created;
        const u64 words = u64{b.state->inode_frames} * bitmap_words;
        // Each creation has a number; otherwise it would take what is left in the array.
        WARREN_CHECK(created == 0 ||
                     (words != 0 && b.sums[words - 1] + b.flags[words - 1] >= created));
        const u64 before = generation_before(state, created);
        b.state->generation = before;
        relaxed_store(state.generation, before + created);
        relaxed_store(state.inodes_used, relaxed_load(state.inodes_used) + created);
    }
};

/// Per item: writes its new inode.
struct WriteInodes : Phase {
    WARREN_HD void operator()(u64 item) const {
        if (!runs(item) || b.does[item] == 0) return;
        BatchDirectory& parent = b.directories[b.directory_of[item]];
        const BatchMade made = made_in(parent, item);
        b.made[item] = made;
        write(item, parent, made_attributes(made, b.header, parent.number));
    }

    /// Writes the new inode, and counts and marks what depends on it.
    WARREN_HD void write(u64 item, BatchDirectory& parent, const Attributes& made) const {
        const u32 rank = b.rank[item];
        const u64 number = made.handle.inode;
        Inode& at = block_at<Inode>(store, number * format::inode_size);
        write_new_inode(ThreadTeam{}, at, made, {});
        relaxed_store(at.references, b.header.references);
        change_version(store, number * format::inode_size);
        if (format::is_directory(made.mode)) {
            relaxed_add(parent.new_directories, 1);
            const u64 above = parent.number * format::inode_size;
            if (grants_less(at, block_at<Inode>(store, above))) {
                note_rights_change(store, number * format::inode_size);
            }
        }
        constexpr u64 in_block = format::inodes_per_block;
        if (rank > 0 && b.numbers[rank - 1] / in_block == number / in_block) return;
        LaneOperation op(ThreadTeam{}, store);
        op.mark_dirty(number * format::inode_size);
    }

    WARREN_HD Handle handle_of(u64 item) const {
        const u32 rank = b.rank[item];
        return {b.numbers[rank], static_cast<u32>(b.state->generation + 1 + rank)};
    }

    /// The mode and group that create() sets if no ACL is inherited.
    WARREN_HD BatchMade made_in(const BatchDirectory& parent, u64 item) const {
        const Credentials& caller = b.header.caller;
        const Inherited from{parent.mode, parent.group, false};
        const u32 group = new_group(caller, from);
        const u32 mode = masked(caller, new_mode(caller, from, group, b.mode_of(item)));
        const Handle handle = handle_of(item);
        return {handle.inode, handle.generation, mode, group, 0};
    }
};

/// Per item: updates the inode that it has moved.
struct StampMoved : Phase {
    WARREN_HD void operator()(u64 item) const {
        if (!runs(item) || b.does[item] == 0) return;
        const u64 number = b.targets[2 * item] & BatchOperand::number_mask;
        auto& at = block_at<Inode>(store, number * format::inode_size);
        relaxed_store(at.changed, b.header.now);
        change_version(store, number * format::inode_size);
    }
};

/// Per item: frees the file that loses its last name, and its blocks.
struct FreeRemoved : Phase {
    WARREN_HD void operator()(u64 item) const {
        if (!runs(item) || b.does[item] == 0) return;
        const InodeRef inode = inode_at(store, b.targets[item] & BatchOperand::number_mask);
        const InodeParts seen(*inode.at);
        const InodeBit bit = inode_bit(inode.number);
        auto& bitmap = block_at<format::InodeBitmap>(store, bit.bitmap_place);
        device_atomic<u64> used(bitmap.used[bit.word]);
        // In a damaged volume two names may lead to the inode: only the thread that clears the bit
        // frees it.
        if ((used.fetch_and(~bit.mask, hd::memory_order_relaxed) & bit.mask) == 0) return;
        LaneOperation op(ThreadTeam{}, store);
        FreeTally tally;
        end_inode(op, inode, seen, tally);
        StoreState& state = *store.state;
        device_atomic<u64>(state.inodes_used).fetch_sub(1, hd::memory_order_relaxed);
        if (tally.blocks > 0) {
            device_atomic<u64>(state.blocks_used).fetch_sub(tally.blocks, hd::memory_order_relaxed);
        }
        change_version(store, inode.number * format::inode_size);
    }
};

}  // namespace warren::ops::batch
