// SPDX-License-Identifier: Apache-2.0
// Writing: blocks of a file become data; the contents of small files stay in the inode. The
// caller's `writer` writes the data themselves between plan and apply, at places that no other file
// can see yet or that belong to the file already. So a crash shows old or new contents, never those
// of another file.
//
// Two writes of one file may run at the same time if both begin and end at block boundaries and
// neither begins after the end of the file, because each then writes whole blocks. Any other write
// needs exclusive access to the file's data: it also zeros the rest of a block that read as zeros,
// and the gap before the write (tail_to_zero()). See map.hpp for operations that free blocks.
//
// Invariant: an extent without the unwritten flag is added only after its blocks were written.
#pragma once

#include "fs/core/shared_blocks.hpp"
#include "fs/ops/map.hpp"

namespace warren::ops {

/// A run of blocks that the writer has to write: completely, or in part if keeps_rest is set.
struct Piece {
    u64 file_block = 0;
    u64 place = 0;  // in the volume
    u32 blocks = 0;
    /// The blocks hold contents of the file, so the writer writes only the caller's bytes.
    /// Otherwise it writes every byte: the caller's bytes; elsewhere those of `bytes` or at
    /// old_place, or zeros.
    bool keeps_rest = false;
    /// `bytes` are what the inode held, from the start of the file; the caller's bytes replace them
    /// where both overlap.
    bool has_bytes = false;
    InlineBytes bytes;
    /// If not 0: the place of the blocks that the new ones replace. The writer copies their
    /// contents where the caller's bytes do not go.
    u64 old_place = 0;
};

/// What apply changes: extents, size and times of a file.
struct ContentChange {
    Extent extent{};  // added to the list, in place of what is there
    bool has_extent = false;
    bool is_fresh = false;  // its blocks were reserved by this operation
    u64 dropped_place = 0;  // of the shared blocks that it replaces, as many; 0: none
    u64 end_bytes = 0;      // the size is then at least this
    i64 now = 0;            // the new times modified and changed; 0 leaves them as they are
};

/// Blocks that apply_change() marks dirty: the inode, the leaf of the list, and one block of the
/// frame table, because a reserved run lies in one frame.
inline constexpr u32 change_blocks_max = 3;
/// The same if shared blocks are replaced, which lie in one frame too: also the frame's counts and
/// its block of the frame table.
inline constexpr u32 replace_blocks_max = change_blocks_max + 2;
WARREN_HD constexpr u32 change_dirties(const ContentChange& change) {
    return change.dropped_place == 0 ? change_blocks_max : replace_blocks_max;
}
inline constexpr u32 apply_attempts = 64;

/// Ends a change of contents: sets the file's times, unless `now` is 0, and in its inode what set()
/// sets, which one lane calls.
template <class Team, class Set>
WARREN_HD void end_contents(Operation<Team>& op, const InodeRef& inode, i64 now, const Set& set) {
    once(op.team, [&] {
        set();
        if (now != 0) touch(inode, now);
    });
    op.mark_dirty(inode.block_place());
    op.end_apply();
}

/// Applies `change` to the file of `spot`. Requires: the list of `spot` covers the extent.
template <class Team>
WARREN_HD Errc apply_change(Operation<Team>& op, const Spot& spot, const ContentChange& change) {
    const InodeRef& inode = spot.file.inode;
    const Extent& extent = change.extent;
    if (!change.has_extent && change.end_bytes <= spot.file.size && change.now == 0) {
        return op.confirm(inode.seen);
    }
    WARREN_TRY(op.will_write(inode.seen));
    if (change.has_extent) {
        WARREN_TRY(check_room(op, inode, spot.home, extent.file_block, end_of(extent), &extent));
        WARREN_TRY(op.will_write(spot.home.seen));
    }
    WARREN_TRY(op.begin_apply(WARREN_CREDITS(change_dirties(change))));
    if (change.is_fresh) {
        use_blocks(op, extent.start.offset(), extent.length);
        if (change.dropped_place == 0) count_blocks(op, inode, extent.length);
    }
    if (change.dropped_place != 0) {
        drop_extent(op, {extent.file_block, BlockPointer::to(change.dropped_place), extent.length,
                         format::extent_shared});
    }
    if (change.has_extent) {
        change_extents(op, inode, spot.home, extent.file_block, end_of(extent), &extent);
    }
    end_contents(op, inode, change.now, [&] {
        if (change.end_bytes > spot.file.size) relaxed_store(inode.at->size, change.end_bytes);
    });
    return Errc::ok;
}

/// Makes the file at least `end_bytes` long and sets its times.
template <class Team>
WARREN_HD Errc apply_size(Operation<Team>& op, const File& file, u64 end_bytes, i64 now) {
    Spot spot;
    spot.file = file;
    ContentChange change;
    change.end_bytes = end_bytes;
    change.now = now;
    return apply_change(op, spot, change);
}

/// The largest hole before `count` new blocks for which room is left in the volume: other writes
/// that are under way may fill it, as the requests of one writeback come in any order. Its limit
/// grows with the square, so that small writes with holes between them do not claim many block
/// groups, and each group gets 40 blocks or more.
WARREN_HD constexpr u64 hole_before_max(u64 count) {
    return count * count / 4;
}

/// Where `count` blocks at the spot should lie: as far behind the last block that the file has
/// before it as in the file if the hole between them is not too large, else right behind that
/// block; 0 if there is none.
template <class Team>
WARREN_HD Result<u64> goal_for(Operation<Team>& op, const Spot& spot, u32 count) {
    ExtentHome home = spot.home;
    u32 index = spot.index;
    if (index == 0 && home.lower > 0) {
        WARREN_LET(before, find_home(op, spot.file.inode, spot.file.kind, home.lower - 1));
        home = *before;
        index = home.list.count;
    }
    if (index == 0) return u64{0};
    const Extent extent = once(op.team, [&] { return read_extent(home.list.at[index - 1]); });
    WARREN_TRY(op.confirm(home.seen));
    const u64 hole = spot.block - end_of(extent);
    return place_at(extent, hole <= hole_before_max(count) ? spot.block : end_of(extent));
}

/// Reserves up to `want` data blocks for the file near goal_for(), fewer if the volume is nearly
/// full.
template <class Team>
WARREN_HD Result<Run> reserve_behind(Operation<Team>& op, const Spot& spot, u64 want) {
    u32 count = want < format::blocks_per_frame ? static_cast<u32>(want) : format::blocks_per_frame;
    WARREN_LET(goal, goal_for(op, spot, count));
    for (;; count /= 2) {
        const Result<Run> run = reserve_blocks(op, FrameKind::data, *goal, count);
        if (run || run.code() != Errc::need_space || count == 1) return run;
    }
}

/// The plan of fill().
struct FillPlan {
    Spot spot;
    Piece piece;
    ContentChange change;
};

/// Finds what is at `block` and plans to make up to `want` blocks from there data. If the inode
/// holds bytes that have to move to a block first, the piece is block 0 alone.
template <class Team>
WARREN_HD Errc plan_fill(Operation<Team>& op, const File& file, u64 block, u64 want,
                         FillPlan& plan) {
    Piece& piece = plan.piece;
    if (file.kind == AreaKind::bytes) {
        WARREN_LET(bytes, inline_bytes(op, file));
        piece.bytes = *bytes;
        piece.has_bytes = !bytes->is_zero();
        if (piece.has_bytes) block = 0;
        if (piece.has_bytes) want = 1;
    }
    WARREN_LET(found, locate(op, file, block));
    const Spot& spot = plan.spot = *found;
    // An area that holds only zeros is like a hole, so any number of blocks fits.
    if (want > spot.blocks && file.kind != AreaKind::bytes) want = spot.blocks;
    piece.file_block = block;
    // Shared blocks are replaced by new ones even if no other reference is left now: a file that
    // had one in the last commit would show the new bytes after a crash.
    if (spot.is_shared) {
        want = blocks_in_frame(spot.place, want);
        WARREN_TRY(pin_counts(op, spot.place, want));
        piece.old_place = plan.change.dropped_place = spot.place;
    }
    piece.keeps_rest = spot.kind == MappingKind::data && !spot.is_shared;
    plan.change.has_extent = !piece.keeps_rest;
    plan.change.is_fresh = spot.place == 0 || spot.is_shared;
    if (plan.change.is_fresh) {
        WARREN_LET(run, reserve_behind(op, spot, want));
        piece.place = run->place;
        piece.blocks = run->blocks;
    } else {
        piece.place = spot.place;
        piece.blocks = static_cast<u32>(want);
    }
    plan.change.extent = {block, BlockPointer::to(piece.place), piece.blocks, 0};
    if (!plan.change.has_extent) return Errc::ok;
    return check_room(op, file.inode, spot.home, block, block + piece.blocks, &plan.change.extent);
}

/// Whether what `plan` found is still the case at `now`, so that what the writer wrote is still
/// right.
template <class Team>
WARREN_HD Result<bool> still_fits(Operation<Team>& op, const FillPlan& plan, const Spot& now) {
    const bool was_bytes = plan.spot.file.kind == AreaKind::bytes;
    if (was_bytes != (now.file.kind == AreaKind::bytes)) return false;
    if (!was_bytes) {
        return plan.spot.kind == now.kind && plan.spot.place == now.place &&
               plan.spot.is_shared == now.is_shared && now.blocks >= plan.piece.blocks;
    }
    WARREN_LET(bytes, inline_bytes(op, now.file));
    return *bytes == plan.piece.bytes;
}

/// Applies `plan` after the writer has run. If the inode or the list has changed meanwhile, but not
/// what the plan depends on, it applies the change to what is there now, without writing again.
/// Errc::retry if the data must be written again.
template <class Team>
WARREN_HD Errc finish_fill(Operation<Team>& op, Handle handle, const FillPlan& plan) {
    Errc code = apply_change(op, plan.spot, plan.change);
    const u32 mark = op.pin_mark();
    for (u32 i = 0; i < apply_attempts && code == Errc::retry; ++i) {
        op.forget_locks();
        op.release_pins(mark);
        const Result<Spot> spot = locate(op, handle, plan.piece.file_block);
        code = spot.code();
        if (!spot) continue;
        const Result<bool> fits = still_fits(op, plan, *spot);
        code = fits.code();
        if (!fits) continue;
        if (!*fits) return Errc::retry;
        code = apply_change(op, *spot, plan.change);
    }
    return code;
}

/// Writes [offset, offset + length) of a file: as many of its blocks as one transaction can make
/// data. Returns how many bytes from `offset` on are done; the caller calls again for the rest. 0
/// means that this call only moved the bytes of the inode to block 0.
///
/// `writer(const Piece&)` -> Errc writes the data to the disk. If the plan has become stale,
/// another attempt calls it again with another piece. The size grows to the end of what is done.
/// `now` = 0 leaves the times to the caller. See tail_to_zero() for writes after the end of the
/// file.
template <class Team, class Writer>
WARREN_HD Result<u64> fill(Operation<Team>& op, Handle handle, u64 offset, u64 length, i64 now,
                           Writer&& writer) {
    if (!format::fits_in_file(offset, length)) return Errc::file_too_big;
    if (length == 0) return u64{0};
    WARREN_LET(file, find_file(op, handle));
    const u64 block = offset / format::block_size;
    const u64 end = offset + length;
    FillPlan plan;
    WARREN_TRY(plan_fill(op, *file, block, blocks_of(end) - block, plan));
    const u64 piece_end = bytes_of(plan.piece.file_block + plan.piece.blocks);
    const u64 done = piece_end < end ? piece_end : end;
    if (done > offset) {
        plan.change.end_bytes = done;
        plan.change.now = now;
    }
    WARREN_TRY(once(op.team, [&] { return writer(static_cast<const Piece&>(plan.piece)); }));
    WARREN_TRY(finish_fill(op, handle, plan));
    return done > offset ? done - offset : u64{0};
}

/// Moves the bytes of a file from its inode to block 0; its size and times stay the same.
template <class Team, class Writer>
WARREN_HD Errc move_out(Operation<Team>& op, Handle handle, const File& file, Writer&& writer) {
    FillPlan plan;
    WARREN_TRY(plan_fill(op, file, 0, 1, plan));
    WARREN_TRY(once(op.team, [&] { return writer(static_cast<const Piece&>(plan.piece)); }));
    return finish_fill(op, handle, plan);
}

/// Replaces shared blocks of a file by blocks of its own with the same contents: up to `blocks`
/// from file block `block` on. Returns how many of these are not shared now.
template <class Team, class Writer>
WARREN_HD Result<u64> unshare(Operation<Team>& op, Handle handle, u64 block, u64 blocks,
                              Writer&& writer) {
    WARREN_LET(file, find_file(op, handle));
    if (file->kind == AreaKind::bytes) return blocks;
    WARREN_LET(spot, locate(op, *file, block));
    const u64 covered = blocks < spot->blocks ? blocks : spot->blocks;
    if (!spot->is_shared) return covered;
    FillPlan plan;
    WARREN_TRY(plan_fill(op, *file, block, covered, plan));
    if (!plan.change.has_extent) return u64{plan.piece.blocks};
    WARREN_TRY(once(op.team, [&] { return writer(static_cast<const Piece&>(plan.piece)); }));
    WARREN_TRY(finish_fill(op, handle, plan));
    return u64{plan.piece.blocks};
}

/// Sets the bytes [begin, end) of the inode's area to `from`, or to zeros if `from` is null. The
/// lanes share the words. Only within apply.
template <class Team>
WARREN_HD void set_inline(Operation<Team>& op, const InodeRef& inode, u64 begin, u64 end,
                          const std::byte* from) {
    for (u32 w = op.team.lane(); w < format::area_bytes / 8; w += Team::width) {
        u64 word = relaxed_load(inode.at->area.words[w]);
        for (u32 i = 0; i < 8; ++i) {
            const u32 at = w * 8 + i;
            if (at < begin || at >= end) continue;
            const u64 byte = from == nullptr ? 0 : static_cast<u64>(from[at - begin]);
            word = (word & ~(u64{0xff} << i * 8)) | byte << i * 8;
        }
        relaxed_store(inode.at->area.words[w], word);
    }
    op.team.sync();
}

/// Changes a file whose contents are in its inode: sets bytes of the area as set_inline() does, the
/// times, and what set() sets, which one lane calls.
template <class Team, class Set>
WARREN_HD Errc change_inline(Operation<Team>& op, const InodeRef& inode, u64 begin, u64 end,
                             const std::byte* from, i64 now, const Set& set) {
    WARREN_TRY(op.will_write(inode.seen));
    WARREN_TRY(op.begin_apply(WARREN_CREDITS(inode_blocks_max)));
    if (begin < end) set_inline(op, inode, begin, end, from);
    end_contents(op, inode, now, set);
    return Errc::ok;
}

/// Stores `length` bytes of a small file in its inode. Returns false if fill() must store them:
/// they end after byte 128, or the file has blocks already.
template <class Team>
WARREN_HD Result<bool> store_inline(Operation<Team>& op, Handle handle, u64 offset,
                                    const std::byte* bytes, u64 length, i64 now) {
    if (offset > format::area_bytes || length > format::area_bytes - offset) return false;
    WARREN_LET(file, find_file(op, handle));
    if (file->kind != AreaKind::bytes) return false;
    if (length == 0) return true;
    const InodeRef& inode = file->inode;
    const u64 end = offset + length;
    WARREN_TRY(change_inline(op, inode, offset, end, bytes, now, [&] {
        if (end > file->size) relaxed_store(inode.at->size, end);
    }));
    return true;
}

}  // namespace warren::ops
