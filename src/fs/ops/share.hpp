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
/// With it, share() marks the lists of both files and the inode that gets the blocks.
inline constexpr u32 share_blocks_max = add_references_blocks_max + 3;
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
        for (u32 i = first; i < first + count; ++i) {
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
        u64 counts_place = block.place;
        if (block.at != nullptr) {
            start_block(op, block, counts_identity(frame));
            once(op.team, [&] {
                relaxed_store(op.store.frame(frame).references, BlockPointer::to(block.place).raw);
            });
            op.mark_dirty(op.store.table_place(frame));
        } else {
            counts_place = counts_pointer(op, frame).offset();
            op.mark_dirty(counts_place);
        }
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
};

/// Puts `extent` into the target and a reference to each of its blocks beside it.
template <class Team>
WARREN_HD Errc apply_sharing(Operation<Team>& op, const Sharing& what, const Spot& from,
                             const Spot& to, const Extent& extent) {
    const u64 place = extent.start.offset();
    const InodeRef& inode = to.file.inode;
    FreshCounts fresh;
    WARREN_TRY(plan_references(op, place, extent.length, fresh));
    WARREN_TRY(check_room(op, inode, to.home, extent.file_block, end_of(extent), &extent));
    Extent shared = once(op.team, [&] { return read_extent(from.home.list.at[from.index]); });
    const bool must_mark = (shared.flags & format::extent_shared) == 0;
    shared.flags |= format::extent_shared;
    WARREN_TRY(op.confirm(from.home.seen));
    WARREN_TRY(op.will_write(from.home.seen));
    WARREN_TRY(op.will_write(inode.seen));
    WARREN_TRY(op.will_write(to.home.seen));
    WARREN_TRY(op.begin_apply(WARREN_CREDITS(share_blocks_max)));
    add_references(op, place, extent.length, fresh);
    if (must_mark) {
        change_extents(op, from.file.inode, from.home, shared.file_block, end_of(shared), &shared);
    }
    change_extents(op, inode, to.home, extent.file_block, end_of(extent), &extent);
    count_blocks(op, inode, extent.length);
    const u64 reached = bytes_of(end_of(extent));
    const u64 end = what.end_bytes < reached ? what.end_bytes : reached;
    once(op.team, [&] {
        if (end > to.file.size) relaxed_store(inode.at->size, end);
        touch_contents(inode, what.now);
    });
    op.mark_dirty(inode.block_place());
    op.end_apply();
    return Errc::ok;
}

/// How many blocks from `place` on lie in shared_frames_max frames.
WARREN_HD constexpr u64 blocks_in_one_step(u64 place) {
    return shared_frames_max * u64{format::blocks_per_frame} -
           place / format::block_size % format::blocks_per_frame;
}

/// Shares one extent, or a part of it, at the begin of what `what` says. The answer is how many
/// blocks are done: shared, or a hole in the source. The caller goes on behind them; 0 means that
/// the target's contents have left its inode. Requires: the blocks of the target are holes.
/// Errc::invalid if they are not, if the source is small enough to lie in its inode, or if both
/// files are one. `writer` as in fill().
template <class Team, class Writer>
WARREN_HD Result<u64> share(Operation<Team>& op, const Sharing& what, Writer&& writer) {
    const Result<File> source = find_file(op, what.source);
    if (!source) return source.code();
    const Result<File> target = find_file(op, what.target);
    if (!target) return target.code();
    if (source->kind == AreaKind::bytes) return Errc::invalid;
    if (source->inode.number == target->inode.number) return Errc::invalid;
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
    const bool is_empty = target->kind == AreaKind::bytes;
    if (!is_empty && to->kind != MappingKind::hole) return Errc::invalid;
    if (!is_empty && count > to->blocks) count = to->blocks;
    const u64 step = blocks_in_one_step(from->place);
    if (count > step) count = step;
    const Extent extent{what.to, BlockPointer::to(from->place), static_cast<u32>(count),
                        format::extent_shared};
    WARREN_TRY(apply_sharing(op, what, *from, *to, extent));
    return count;
}

}  // namespace warren::ops
