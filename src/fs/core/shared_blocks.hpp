// SPDX-License-Identifier: Apache-2.0
// Data blocks to which several extents refer. A frame with such blocks has one metadata block with
// a count for each of its blocks: the number of references besides the first. So a new block needs
// no count, and a frame in which no block was ever shared has no counts.
//
// Counts change by atomic additions, in the apply that changes the extents; all accesses to counts
// that several operations can reach are to pairs of them. An operation that adds a reference to a
// block has locked an extent that refers to it, and the guard of the block's frame. An operation
// that drops a reference has locked only its own extent.
//
// Invariant: every extent that refers to a block with a count above 0 has the flag extent_shared.
// The flag may stay when the other references are gone.
#pragma once

#include "fs/core/allocator.hpp"
#include "fs/core/block_identity.hpp"
#include "fs/format/tree.hpp"

namespace warren::core {

using format::BlockPointer;
using format::ReferenceBlock;

/// The greatest number of frames whose counts one operation changes.
inline constexpr u32 shared_frames_max = 8;
inline constexpr u32 references_max = ~u32{0};

/// The number of blocks from `place` on that lie in the first shared_frames_max frames.
WARREN_HD constexpr u64 blocks_in_one_step(u64 place) {
    return shared_frames_max * u64{format::blocks_per_frame} -
           place / format::block_size % format::blocks_per_frame;
}

/// The identity that the block with the counts of `frame` must have.
WARREN_HD constexpr BlockIdentity counts_identity(u64 frame) {
    return {BlockKind::reference_counts, 0, frame};
}

/// The pointer to the counts of `frame`, 0 if it has none.
template <class Team>
WARREN_HD BlockPointer counts_pointer(Operation<Team>& op, u64 frame) {
    return {once(op.team, [&] {
        // Acquire: pairs with the release in add_references(), so that new counts are seen as they
        // were written.
        return device_atomic<u64>(op.store.frame(frame).references).load(hd::memory_order_acquire);
    })};
}

/// Finds and pins the counts of `frame`; null if it has none. Part of a plan.
template <class Team>
WARREN_HD Result<ReferenceBlock*> find_counts(Operation<Team>& op, u64 frame) {
    const BlockPointer pointer = counts_pointer(op, frame);
    if (pointer.raw == 0) return static_cast<ReferenceBlock*>(nullptr);
    if (!pointer.is_valid() || pointer.is_indirect()) return Errc::corrupt;
    WARREN_LET(block, op.pin(pointer.offset()));
    auto* counts = reinterpret_cast<ReferenceBlock*>(*block);
    const bool is_own =
        once(op.team, [&] { return is_own_block(counts->header, counts_identity(frame)); });
    return is_own ? Result<ReferenceBlock*>(counts) : Errc::corrupt;
}

/// Pins the counts of all frames in which a run of blocks lies. Part of a plan.
template <class Team>
WARREN_HD Errc pin_counts(Operation<Team>& op, u64 place, u64 blocks) {
    Errc code = Errc::ok;
    for_each_frame_part(place, blocks, [&](u64 frame, u32, u32) {
        if (code == Errc::ok) code = find_counts(op, frame).code();
    });
    return code;
}

/// The count of `block` in the word of its pair.
WARREN_HD constexpr u32 extra_in(u64 pair, u32 block) {
    return static_cast<u32>(pair >> block % 2 * 32);
}
/// A word with 1 as the count of `block`, the other of its pair 0.
WARREN_HD constexpr u64 one_extra(u32 block) {
    return u64{1} << block % 2 * 32;
}
WARREN_HD inline u32 load_extra(const ReferenceBlock& counts, u32 block) {
    return extra_in(relaxed_load(counts.pairs[block / 2]), block);
}

/// Calls `action(pair, ones)` for the word of each pair with a block of [first, first + count);
/// `ones` has 1 as the count of such a block. Each lane its own words.
template <class Team, class Counts, class Action>
WARREN_HD void for_each_pair(const Team& team, Counts& counts, u32 first, u32 count,
                             const Action& action) {
    const u32 end = first + count;
    for (u32 w = first / 2 + team.lane(); 2 * w < end; w += Team::width) {
        const u64 low = 2 * w >= first ? one_extra(0) : 0;
        const u64 high = 2 * w + 1 < end ? one_extra(1) : 0;
        action(counts.pairs[w], low | high);
    }
}

/// Drops one reference of several. False if there is only one. One lane.
WARREN_HD inline bool drop_extra(ReferenceBlock& counts, u32 block) {
    device_atomic<u64> pair(counts.pairs[block / 2]);
    u64 old = pair.load(hd::memory_order_relaxed);
    while (extra_in(old, block) > 0) {
        if (pair.compare_exchange_weak(old, old - one_extra(block), hd::memory_order_relaxed))
            return true;
    }
    return false;
}

/// The part of end_extent() in one frame, of an extent with the flag extent_shared.
template <class Team>
WARREN_HD u64 end_in_frame(Operation<Team>& op, u64 frame, u32 first, u32 count) {
    const u64 place = frame * format::frame_size;
    const BlockPointer pointer = counts_pointer(op, frame);
    // Counts that were created after the plan are not pinned, so a buffer cache may evict them at
    // any moment. They are 0 for these blocks, because this operation has locked the extent since
    // it planned.
    auto* counts =
        pointer.raw == 0 ? nullptr : reinterpret_cast<ReferenceBlock*>(op.pinned(pointer.offset()));
    if (counts == nullptr) {
        end_use(op, place + first * format::block_size, count);
        return count;
    }
    const u32 end = first + count;
    u64 freed_here = 0;
    bool is_changed = false;
    for (u32 at = first; at < end;) {
        // The number of blocks from `at` on that have other references, then the number that have
        // none.
        u32 kept = 0;
        const u32 freed = once(op.team, [&] {
            u32 block = at;
            while (block < end && drop_extra(*counts, block))
                ++block;
            kept = block - at;
            // This is the last reference, and stays so: only an operation that locks this extent
            // could share the block again.
            while (block < end && load_extra(*counts, block) == 0)
                ++block;
            return block - at - kept;
        });
        kept = once(op.team, [&] { return kept; });
        if (freed > 0) end_use(op, place + (at + kept) * format::block_size, freed);
        freed_here += freed;
        is_changed = is_changed || kept > 0;
        at += kept + freed;
    }
    if (is_changed) op.mark_dirty(pointer.offset());
    return freed_here;
}

/// Drops the references of an extent to its blocks and ends the use of those without other
/// references, as end_use() does. Returns the number of these; the caller updates blocks_used. Only
/// within apply; of an extent with the flag extent_shared, after pin_counts().
template <class Team>
WARREN_HD u64 end_extent(Operation<Team>& op, const format::Extent& extent) {
    if (!format::is_shared(extent)) {
        end_use(op, extent.start.offset(), extent.length);
        return extent.length;
    }
    u64 freed = 0;
    for_each_frame_part(extent.start.offset(), extent.length, [&](u64 frame, u32 first, u32 count) {
        freed += end_in_frame(op, frame, first, count);
    });
    return freed;
}

/// Drops the references of an extent to its blocks and frees those without other references. Only
/// within apply; of an extent with the flag extent_shared, after pin_counts().
template <class Team>
WARREN_HD void drop_extent(Operation<Team>& op, const format::Extent& extent) {
    const u64 freed = end_extent(op, extent);
    if (freed > 0) count_freed(op, freed);
}

}  // namespace warren::core
