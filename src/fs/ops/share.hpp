// SPDX-License-Identifier: Apache-2.0
// Sharing: blocks of one file also become blocks of another file, without a copy. A later write to
// either file goes to new blocks (fill.hpp).
//
// While this runs, the host keeps other users away from the data of both files.
#pragma once

#include "fs/core/shared_blocks.hpp"
#include "fs/ops/fill.hpp"

namespace warren::ops {

/// Blocks that add_references() marks dirty: for each frame its counts, which may be a new block,
/// and its block of the frame table.
inline constexpr u32 add_references_blocks_max = shared_frames_max * (start_blocks_max + 1);
/// Blocks marked dirty when the shared blocks replace others: for each frame of the replaced blocks
/// its counts and its block of the frame table.
inline constexpr u32 replaced_blocks_max = shared_frames_max * 2;
/// Besides those, share() marks the lists of both files and the inode of the target.
inline constexpr u32 share_blocks_max = add_references_blocks_max + replaced_blocks_max + 3;
/// Blocks that mark_shared() marks dirty: the list.
inline constexpr u32 mark_shared_blocks = 1;
static_assert(share_blocks_max <= journal_room_min);
static_assert(shared_frames_max + 3 <= locks_max);
static_assert(shared_frames_max <= reservations_max);

/// New blocks of counts for those frames of a run that have none.
struct FreshCounts {
    FreshBlock blocks[shared_frames_max];  // by frame, from the run's first; place 0: none
};

/// The part of plan_references() for one frame.
template <class Team>
WARREN_HD Errc plan_references_in(Operation<Team>& op, u64 frame, u32 first, u32 count,
                                  FreshBlock& fresh) {
    // The frame's guard is the version word of its first block. No metadata lie there, because this
    // frame holds contents.
    Seen guard;
    WARREN_TRY(op.observe(frame * format::frame_size, guard));
    WARREN_LET(counts, find_counts(op, frame));
    WARREN_TRY(op.will_write(guard));
    if (*counts == nullptr) {
        const Result<FreshBlock> block = reserve_block(op);
        if (block) fresh = *block;
        return block.code();
    }
    return once(op.team, [&] {
        u64 bits = 0;  // a count can be references_max only if all bits of its half are set
        for_each_pair(ThreadTeam{}, **counts, first, count,
                      [&](const u64& pair, u64) { bits |= relaxed_load(pair); });
        if (extra_in(bits, 0) != references_max && extra_in(bits, 1) != references_max)
            return Errc::ok;
        for (u32 i = first; i < first + count; ++i) {
            if (load_extra(**counts, i) == references_max) return Errc::too_many_links;
        }
        return Errc::ok;
    });
}

/// Plans to add one reference to each block of a run, which lies in at most shared_frames_max
/// frames. Errc::too_many_links if one of the counts is at its maximum.
template <class Team>
WARREN_HD Errc plan_references(Operation<Team>& op, u64 place, u64 blocks, FreshCounts& fresh) {
    Errc code = Errc::ok;
    u32 index = 0;
    for_each_frame_part(place, blocks, [&](u64 frame, u32 first, u32 count) {
        if (code == Errc::ok)
            code = plan_references_in(op, frame, first, count, fresh.blocks[index]);
        ++index;
    });
    return code;
}

/// Does what plan_references() planned. Only within apply.
template <class Team>
WARREN_HD void add_references(Operation<Team>& op, u64 place, u64 blocks,
                              const FreshCounts& fresh) {
    u32 index = 0;
    for_each_frame_part(place, blocks, [&](u64 frame, u32 first, u32 count) {
        const FreshBlock& block = fresh.blocks[index++];
        if (block.at != nullptr) {
            start_block(op, block, counts_identity(frame));
            // No other operation can find these counts yet, so stores suffice.
            auto* counts = reinterpret_cast<ReferenceBlock*>(block.at);
            for_each_pair(op.team, *counts, first, count,
                          [](u64& pair, u64 ones) { relaxed_store(pair, ones); });
            op.team.sync();
            once(op.team, [&] {
                // Release: pairs with the acquire in counts_pointer().
                device_atomic<u64>(op.store.frame(frame).references)
                    .store(BlockPointer::to(block.place).raw, hd::memory_order_release);
            });
            op.mark_dirty(op.store.table_place(frame));
            return;
        }
        const u64 counts_place = counts_pointer(op, frame).offset();
        op.mark_dirty(counts_place);
        auto* counts = reinterpret_cast<ReferenceBlock*>(op.pinned(counts_place));
        WARREN_CHECK(counts != nullptr);
        // No half overflows: plan_references() has asked, and others only drop references.
        for_each_pair(op.team, *counts, first, count, [](u64& pair, u64 ones) {
            device_atomic<u64>(pair).fetch_add(ones, hd::memory_order_relaxed);
        });
        op.team.sync();
    });
}

/// The arguments of share(). `from`, `to` and `blocks` count blocks of the files.
struct Sharing {
    Handle source;
    Handle target;
    u64 from = 0;
    u64 to = 0;
    u64 blocks = 0;
    u64 end_bytes = 0;  // the size that the target must have at least when all blocks are shared
    i64 now = 0;        // for the target's times

    /// The size that the target must have at least when `count` blocks are shared.
    WARREN_HD u64 end_after(u64 count) const {
        const u64 reached = bytes_of(to + count);
        return end_bytes < reached ? end_bytes : reached;
    }
};

/// Sets the flag extent_shared in the extent of `spot`. Only within apply.
template <class Team>
WARREN_HD void mark_shared(Operation<Team>& op, const Spot& spot) {
    Extent extent = once(op.team, [&] { return read_extent(spot.home.list.at[spot.index]); });
    extent.flags |= format::extent_shared;
    change_extents(op, spot.file.inode, spot.home, extent.file_block, end_of(extent), &extent);
}

/// mark_shared() as an operation of its own.
template <class Team>
WARREN_HD Errc apply_mark(Operation<Team>& op, const Spot& spot) {
    WARREN_TRY(op.will_write(spot.home.seen));
    WARREN_TRY(op.begin_apply(WARREN_CREDITS(mark_shared_blocks)));
    mark_shared(op, spot);
    op.end_apply();
    return Errc::ok;
}

/// Puts `extent` into the target in place of what is there, and adds a reference to each of its
/// blocks.
template <class Team>
WARREN_HD Errc apply_sharing(Operation<Team>& op, const Sharing& what, const Spot& from,
                             const Spot& to, const Extent& extent) {
    const u64 place = extent.start.offset();
    const InodeRef& inode = to.file.inode;
    FreshCounts fresh;
    WARREN_TRY(plan_references(op, place, extent.length, fresh));
    if (to.is_shared) WARREN_TRY(pin_counts(op, to.place, extent.length));
    WARREN_TRY(check_room(op, inode, to.home, extent.file_block, end_of(extent), &extent));
    WARREN_TRY(op.will_write(from.home.seen));
    WARREN_TRY(op.will_write(inode.seen));
    WARREN_TRY(op.will_write(to.home.seen));
    WARREN_TRY(op.begin_apply(WARREN_CREDITS(share_blocks_max)));
    // References are added first, because the same block may also be among those that are dropped.
    add_references(op, place, extent.length, fresh);
    if (to.place != 0) {
        drop_extent(op, {extent.file_block, BlockPointer::to(to.place), extent.length,
                         to.is_shared ? format::extent_shared : 0});
    } else {
        count_blocks(op, inode, extent.length);
    }
    if (!from.is_shared) mark_shared(op, from);
    change_extents(op, inode, to.home, extent.file_block, end_of(extent), &extent);
    const u64 end = what.end_after(extent.length);
    end_contents(op, inode, what.now, [&] {
        if (end > to.file.size) relaxed_store(inode.at->size, end);
    });
    return Errc::ok;
}

/// Shares one extent, or a part of it, at the beginning of the range that `what` names; it replaces
/// what the target has there. Returns how many blocks are done: they are shared, or a hole in the
/// source, for which the target stays as it is. The caller calls again for the rest. 0 means that
/// only a preparing step was done. Errc::invalid if the source is so small that it lies in its
/// inode. `writer` is as in fill(). Requires: if both are the same file, the ranges do not overlap.
template <class Team, class Writer>
WARREN_HD Result<u64> share(Operation<Team>& op, const Sharing& what, Writer&& writer) {
    WARREN_LET(source, find_file(op, what.source));
    WARREN_LET(target, find_file(op, what.target));
    if (source->kind == AreaKind::bytes) return Errc::invalid;
    WARREN_LET(from, locate(op, *source, what.from));
    u64 count = what.blocks < from->blocks ? what.blocks : from->blocks;
    if (from->kind != MappingKind::data) return count;
    if (target->kind == AreaKind::bytes) {
        WARREN_LET(bytes, inline_bytes(op, *target));
        if (!bytes->is_zero()) {
            WARREN_TRY(move_out(op, what.target, *target, writer));
            return u64{0};
        }
    }
    WARREN_LET(to, locate(op, *target, what.to));
    // An area that holds only zeros is like a hole, so any number of blocks fits.
    if (target->kind != AreaKind::bytes && count > to->blocks) count = to->blocks;
    if (to->kind == MappingKind::data && to->place == from->place) {
        WARREN_TRY(apply_size(op, *target, what.end_after(count), what.now));
        return count;
    }
    // If both spots are in one list, marking the source changes the positions of what lies after
    // it. So that is a step of its own.
    if (!from->is_shared && from->home.seen.place == to->home.seen.place) {
        WARREN_TRY(apply_mark(op, *from));
        return u64{0};
    }
    const u64 step = blocks_in_one_step(from->place);
    const u64 step_there = blocks_in_one_step(to->place);
    if (count > step) count = step;
    if (count > step_there) count = step_there;
    const Extent extent{what.to, BlockPointer::to(from->place), static_cast<u32>(count),
                        format::extent_shared};
    WARREN_TRY(apply_sharing(op, what, *from, *to, extent));
    return count;
}

}  // namespace warren::ops
