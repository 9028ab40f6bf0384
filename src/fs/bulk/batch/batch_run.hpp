// SPDX-License-Identifier: Apache-2.0
// Runs the phases of a batch in order, on an executor: a grid of threads, one thread block, or a
// loop. An executor has
//
//   each(count, phase)       calls phase(i) for each i below count, in any order and in parallel;
//                            may construct the phase again over copies of its batch and store
//   sort(batch, count, bits) sorts batch.order by the lowest bits of batch.sort_keys, stably
//   sum(from, to, count)     to[i] = the sum of from[0 .. i-1]; `from` may be `to`
//   look(state)              returns the state after all phases so far
//   is_near                  whether the state can be read between phases at no cost
//   can_clone                whether it is compiled for batches of clones
//
// Invariant: a phase sees everything that earlier phases wrote.
#pragma once

#include <algorithm>

#include "fs/bulk/batch/batch_clone.hpp"
#include "fs/bulk/batch/batch_edit.hpp"

// An executor is for the host or for the device, and the functions that use it run on the same
// side.
#if defined(__CUDACC__)
#define WARREN_SIDE_OF_CROWD _Pragma("nv_exec_check_disable")
#else
#define WARREN_SIDE_OF_CROWD
#endif

namespace warren::ops::batch {

template <class Executor>
WARREN_HD bool clones(const Batch& b) {
    return Executor::can_clone && b.shape.kind == BatchKind::clone;
}

/// Sorts the operands, opens the directories and finds the entries.
WARREN_SIDE_OF_CROWD
template <class Executor>
WARREN_HD void look_up(Executor& executor, Batch& b, const Store& store) {
    const u64 operands = b.shape.operands();
    executor.each(operands, HashOperands{{b, store}});
    executor.sort(b, operands, hash_bits);
    executor.each(operands, KeyByDirectory{{b, store}});
    executor.sort(b, operands, directory_bits(store));
    executor.each(operands, MarkDirectories{{b, store}});
    executor.sum(b.flags, b.sums, operands);
    executor.each(operands, NumberDirectories{{b, store}});
    if (!b.may_edit) executor.each(operands, OpenDirectories{{b, store}});
    executor.each(operands, LookUpOperands{{b, store}});
}

/// Decides which items are carried out, and lists the blocks of the trees to rewrite.
WARREN_SIDE_OF_CROWD
template <class Executor>
WARREN_HD void choose(Executor& executor, Batch& b, const Store& store) {
    const u64 operands = b.shape.operands();
    const u64 items = b.shape.items;
    if constexpr (Executor::can_clone) {
        if (clones<Executor>(b)) executor.each(items, DecideClones{{{b, store}}});
    }
    if (!clones<Executor>(b)) executor.each(items, Decide{{b, store}});
    executor.each(operands, MarkEdits{{b, store}});
    executor.sum(b.flags, b.sums, operands);
    executor.each(operands, ChooseDirectories{{b, store}});
    executor.each(items, Keep{{b, store}});
    if constexpr (Executor::can_clone) {
        if (clones<Executor>(b)) executor.each(items, ClaimShared{{{b, store}}});
    }
    if (b.shape.makes_inodes()) {
        executor.sum(b.flags, b.sums, items);
        executor.each(items, NumberCreations{{b, store}});
        executor.each(1, ListInodeFrames{{b, store}});
    }
    executor.each(operands, ListRoots{{b, store}});
    executor.each(1, EndRound{{b, store, 0}});
    for (u32 round = 0; round < batch_rounds; ++round) {
        if constexpr (Executor::is_near) {
            if (b.state->blocks_end == b.state->old_leaves) break;  // there are no nodes
        }
        executor.each(b.blocks_max, ListChildren{{b, store, round}});
        executor.each(1, EndRound{{b, store, round + 1}});
    }
    executor.each(b.blocks_max, CountOldEntries{{b, store}});
    executor.sum(b.flags, b.sums, b.blocks_max);
}

/// Merges the old and new entries of the changed directories, divides them into leaves, and
/// reserves inodes and blocks.
WARREN_SIDE_OF_CROWD
template <class Executor>
WARREN_HD void merge(Executor& executor, Batch& b, const Store& store, const BatchState& so_far) {
    const u64 operands = b.shape.operands();
    const u64 records = operands + so_far.entries;
    executor.each(u64{so_far.old_leaves} * parts_a_leaf, RecordLeaves{{b, store}});
    executor.each(operands, RecordOperands{{b, store}});
    executor.sort(b, records, 64);
    executor.each(records, RecordKeyByDirectory{{b, store}});
    executor.sort(b, records, 64 - static_cast<u32>(hd::countl_zero(u64{so_far.directories})));
    executor.each(records, MarkEntries{{b, store, records}});
    executor.sum(b.flags, b.sums, records);
    executor.each(records, GatherEntries{{b, store, records}});
    executor.sum(b.weights, b.weights, records);
    executor.sum(b.offsets, b.offsets, records);
    executor.each(records, BoundEntries{{b, store}});
    executor.each(records, MarkLeaves{{b, store}});
    executor.sum(b.flags, b.sums, records);
    executor.each(records, NumberLeaves{{b, store}});
    executor.each(so_far.directories, CountBlocks{{b, store}});
    executor.sum(b.flags, b.sums, so_far.directories);
    executor.each(so_far.directories, DealBlocks{{b, store}});
    if constexpr (Executor::can_clone) {
        if (clones<Executor>(b)) executor.each(1, DealCounts{{b, store}});
    }
    if (b.shape.makes_inodes()) {
        // UseSlots needs the sums of the slots, so no later phase overwrites them.
        const u64 words = u64{so_far.inode_frames} * bitmap_words;
        executor.each(words, CountSlots{{b, store}});
        executor.sum(b.flags, b.sums, words);
        executor.each(so_far.inode_frames, DropFullFrames{{b, store}});
        executor.each(words, TakeSlots{{b, store}});
    }
    executor.each(b.places_max, ClearPlaces{{b, store}});
    executor.each(1, CheckRoom{{b, store}});
    executor.each(u64{reserve_shares} * share_stride, ReserveBlocks{{b, store}});
    executor.each(b.places_max, GiveBack{{b, store}});
}

/// Makes the changes.
WARREN_SIDE_OF_CROWD
template <class Executor>
WARREN_HD void write(Executor& executor, Batch& b, const Store& store, const BatchState& planned) {
    executor.each(planned.new_blocks * (format::block_size / 8), ClearBlocks{{b, store}});
    executor.each(planned.new_blocks, UseBlocks{{b, store}});
    if (b.shape.makes_inodes()) {
        executor.each(1, CountInodes{{b, store}});
        executor.each(u64{planned.inode_frames} * bitmap_words, UseSlots{{b, store}});
        if constexpr (Executor::can_clone) {
            executor.each(planned.fresh_counts, StartCounts{{b, store}});
            if (clones<Executor>(b)) executor.each(b.shape.items, CopyInodes{{{b, store}}});
        }
        if (!clones<Executor>(b)) executor.each(b.shape.items, WriteInodes{{b, store}});
    } else if (b.shape.kind == BatchKind::remove) {
        executor.each(b.shape.items, FreeRemoved{{b, store}});
    } else {
        executor.each(b.shape.items, StampMoved{{b, store}});
    }
    executor.each(planned.entries, WriteEntries{{b, store}});
    executor.each(planned.leaves, StartLeaves{{b, store}});
    executor.each(planned.directories, FinishDirectories{{b, store}});
    executor.each(planned.blocks_end, FreeBlocks{{b, store}});
}

/// Makes moves or removals in place. False if that is impossible; then nothing has changed.
WARREN_SIDE_OF_CROWD
template <class Executor>
WARREN_HD bool edit(Executor& executor, Batch& b, const Store& store) {
    static_assert(Executor::is_near);
    const u64 operands = b.shape.operands();
    // The next phase does not change this field, so no thread reads a later value.
    if (b.state->must_rewrite != 0) return false;
    executor.each(b.shape.items, Decide{{b, store}});
    executor.each(operands, PlanEdits{{{b, store}}});
    if (b.shape.kind == BatchKind::remove) executor.each(operands, PlanEmptied{{{b, store}}});
    if (b.state->must_rewrite != 0) {
        executor.each(b.state->marked, Unmark{{b, store}});
        executor.each(1, DropEdits{{b, store}});
        return false;
    }
    executor.each(1, CheckRoom{{b, store}});
    executor.each(u64{reserve_shares} * share_stride, ReserveBlocks{{b, store}});
    if (b.state->status != Errc::ok) {
        executor.each(b.state->new_blocks, GiveBack{{b, store}});
        executor.each(b.state->marked, Unmark{{b, store}});
        return true;
    }
    executor.each(b.state->new_blocks * (format::block_size / 8), ClearBlocks{{b, store}});
    executor.each(operands, WriteEdits{{{b, store}}});
    return true;
}

/// Runs the items [b.begin, b.end). Afterwards the items below the state's limit have their
/// results, unless the state's status is an error. Requires: exclusive access to the store;
/// *b.state is zero except for its limit, which is b.end.
WARREN_SIDE_OF_CROWD
template <class Executor>
WARREN_HD BatchState run(Executor& executor, Batch& b, const Store& store) {
    look_up(executor, b, store);
    if (b.shape.kind == BatchKind::look_up) return executor.look(*b.state);
    if constexpr (Executor::is_near) {
        if (b.may_edit && edit(executor, b, store)) return executor.look(*b.state);
    }
    choose(executor, b, store);
    BatchState planned = executor.look(*b.state);
    if (b.shape.operands() + planned.entries > b.records_max) planned.status = Errc::corrupt;
    if (planned.status == Errc::ok) {
        merge(executor, b, store, planned);
        planned = executor.look(*b.state);
    }
    if (planned.status == Errc::ok) {
        write(executor, b, store, planned);
    } else {
        executor.each(planned.marked, Unmark{{b, store}});
        if constexpr (Executor::can_clone) {
            executor.each(planned.fresh_counts, UnclaimShared{{b, store}});
        }
    }
    return planned;
}

/// How many records a batch should have memory for: its operands, and the entries of the
/// directories that are rewritten. These may have as many entries as the whole call has items, in
/// whichever of its parts.
inline u64 records_for(const BatchShape& shape) {
    return shape.operands() + std::max<u64>({4 * shape.items, 4 * shape.call_items, 65'536});
}

/// Lays out the arrays of `b`: take(pointer, count) sets `pointer` to memory for `count` elements.
template <class Take>
void lay_out(Batch& b, u64 records_max, Take&& take) {
    const u64 operands = b.shape.operands();
    const u64 entries_max = records_max - operands;
    b.records_max = records_max;
    b.blocks_max = entries_max / 8 + operands;
    b.places_max = b.records_max / 6 + operands + 64 + b.shape.fresh_counts_max();
    b.frames_max = b.records_max / bitmap_words;
    take(b.state, 1);
    take(b.needed_places, needed_places_max);
    take(b.hashes, operands);
    take(b.targets, operands);
    take(b.keys, operands);
    take(b.operand_codes, operands);
    take(b.directory_of, operands);
    take(b.directories, operands);
    take(b.operands_in_order, operands);
    take(b.does, b.shape.items);
    take(b.rank, b.shape.items);
    take(b.numbers, b.shape.items);
    take(b.marked, b.shape.marks_max());
    take(b.fresh_counts, b.shape.fresh_counts_max());
    take(b.sort_keys, b.records_max);
    take(b.sort_keys_other, b.records_max);
    take(b.order, b.records_max);
    take(b.order_other, b.records_max);
    take(b.flags, b.records_max);
    take(b.sums, b.records_max);
    take(b.blocks, b.blocks_max);
    take(b.leaf_blocks, b.blocks_max);
    take(b.record_keys, b.records_max);
    take(b.record_directories, b.records_max);
    take(b.record_slots, b.records_max);
    take(b.entries, b.records_max);
    take(b.weights, b.records_max);
    take(b.offsets, b.records_max);
    take(b.leaf_of, b.records_max);
    take(b.leaf_begin, b.records_max);
    take(b.places, b.places_max);
    b.leaf_places = b.record_keys;
    b.slots = b.record_slots;
    take(b.frames, b.frames_max);
}

}  // namespace warren::ops::batch
