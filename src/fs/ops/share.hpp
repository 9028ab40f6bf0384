// SPDX-License-Identifier: Apache-2.0
// Sharing: blocks of one file become blocks of another as well, without a copy. A later write to
// either goes to new blocks (fill.hpp).
//
// The host keeps others from the data of both files meanwhile.
#pragma once

#include "fs/core/shared_blocks.hpp"
#include "fs/ops/fill.hpp"

namespace warren::ops {

/// What add_references() marks: of each frame its counts, which may be a new block, and its block
/// of the frame table.
inline constexpr u32 add_references_blocks_max = shared_frames_max * (start_blocks_max + 1);
/// What dropping the blocks marks that others take the place of: of each frame its counts and its
/// block of the frame table.
inline constexpr u32 replaced_blocks_max = shared_frames_max * 2;
/// With both, share() marks the lists of both files and the inode that gets the blocks.
inline constexpr u32 share_blocks_max = add_references_blocks_max + replaced_blocks_max + 3;
/// What mark_shared() marks: the list.
inline constexpr u32 mark_shared_blocks = 1;
static_assert(share_blocks_max <= journal_room_min);
static_assert(shared_frames_max + 3 <= locks_max);
static_assert(shared_frames_max <= reservations_max);

/// New counts for the frames of a run that have none.
struct FreshCounts {
    FreshBlock blocks[shared_frames_max];  // by frame, from the run's first; none: place 0
};

/// The part of plan_references() in one frame.
template <class Team>
WARREN_HD Errc plan_references_in(Operation<Team>& op, u64 frame, u32 first, u32 count,
                                  FreshBlock& fresh) {
    // The guard of the frame: nothing else lies at the place of a block of contents.
    Seen guard;
    WARREN_TRY(op.observe(frame * format::frame_size, guard));
    const Result<ReferenceBlock*> counts = find_counts(op, frame);
    if (!counts) return counts.code();
    WARREN_TRY(op.will_write(guard));
    if (*counts == nullptr) {
        const Result<FreshBlock> block = reserve_block(op);
        if (block) fresh = *block;
        return block.code();
    }
    return once(op.team, [&] {
        u32 bits = 0;  // only if all are set can one of the counts be references_max
        for (u32 i = first; i < first + count; ++i)
            bits |= relaxed_load((*counts)->extra[i]);
        for (u32 i = first; i < first + count && bits == references_max; ++i) {
            if (relaxed_load((*counts)->extra[i]) == references_max) return Errc::too_many_links;
        }
        return Errc::ok;
    });
}

/// Plans one more reference to each block of a run in up to shared_frames_max frames.
/// Errc::too_many_links if one cannot be counted.
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
            // No other operation can find these counts yet, so plain stores will do.
            auto* counts = reinterpret_cast<ReferenceBlock*>(block.at);
            for (u32 i = first + op.team.lane(); i < first + count; i += Team::width)
                relaxed_store(counts->extra[i], 1);
            op.team.sync();
            once(op.team, [&] {
                relaxed_store(op.store.frame(frame).references, BlockPointer::to(block.place).raw);
            });
            op.mark_dirty(op.store.table_place(frame));
            return;
        }
        const u64 counts_place = counts_pointer(op, frame).offset();
        op.mark_dirty(counts_place);
        auto* counts = reinterpret_cast<ReferenceBlock*>(op.resident(counts_place));
        WARREN_CHECK(counts != nullptr);
        for (u32 i = first + op.team.lane(); i < first + count; i += Team::width)
            device_atomic<u32>(counts->extra[i]).fetch_add(1, hd::memory_order_relaxed);
        op.team.sync();
    });
}

/// What share() is about; blocks of the files.
struct Sharing {
    Handle source;
    Handle target;
    u64 from = 0;
    u64 to = 0;
    u64 blocks = 0;
    u64 end_bytes = 0;  // the target will have this size at least once all blocks are shared
    i64 now = 0;        // for the times of the target

    /// The size that the target has at least once `count` blocks are shared.
    WARREN_HD u64 end_after(u64 count) const {
        const u64 reached = bytes_of(to + count);
        return end_bytes < reached ? end_bytes : reached;
    }
};

/// Gives the extent of `spot` the flag extent_shared.
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

/// Puts `extent` into the target, a reference to each of its blocks beside it, instead of what is
/// there.
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
    // References are added first: a block may be among those dropped, too.
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
    once(op.team, [&] {
        if (end > to.file.size) relaxed_store(inode.at->size, end);
        touch_contents(inode, what.now);
    });
    op.mark_dirty(inode.block_place());
    op.end_apply();
    return Errc::ok;
}

/// Shares one extent, or a part of it, at the begin of what `what` says, instead of what the target
/// has there. The answer is how many blocks are done: shared, or a hole in the source, which leaves
/// the target as it is. The caller goes on behind them; 0: a step on the way is done. Errc::invalid
/// if the source is small enough to lie in its inode. `writer` as in fill(). Requires: in one file,
/// the ranges do not overlap.
template <class Team, class Writer>
WARREN_HD Result<u64> share(Operation<Team>& op, const Sharing& what, Writer&& writer) {
    const Result<File> source = find_file(op, what.source);
    if (!source) return source.code();
    const Result<File> target = find_file(op, what.target);
    if (!target) return target.code();
    if (source->kind == AreaKind::bytes) return Errc::invalid;
    const Result<Spot> from = locate(op, *source, what.from);
    if (!from) return from.code();
    u64 count = what.blocks < from->blocks ? what.blocks : from->blocks;
    if (from->kind != MappingKind::data) return count;
    if (target->kind == AreaKind::bytes) {
        const Result<InlineBytes> bytes = inline_bytes(op, *target);
        if (!bytes) return bytes.code();
        if (!bytes->is_zero()) {
            WARREN_TRY(move_out(op, what.target, *target, writer));
            return u64{0};
        }
    }
    const Result<Spot> to = locate(op, *target, what.to);
    if (!to) return to.code();
    // An area of nothing but zeros is as good as a hole.
    if (target->kind != AreaKind::bytes && count > to->blocks) count = to->blocks;
    if (to->kind == MappingKind::data && to->place == from->place) {
        WARREN_TRY(apply_size(op, *target, what.end_after(count), what.now));
        return count;
    }
    // In one list, marking the source moves what lies behind it.
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
