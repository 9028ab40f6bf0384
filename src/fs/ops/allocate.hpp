// SPDX-License-Identifier: Apache-2.0
// fallocate(2): reserves blocks that read as zeros, punches holes, zeros a range. One call is one
// transaction and returns how many bytes are done; the caller calls again for the rest.
//
// These operations change whole blocks and leave alone a block that the range covers only in part.
// If map() says that such a block is data, the host itself writes zeros over the covered part.
#pragma once

#include "fs/ops/cut.hpp"
#include "fs/ops/fill.hpp"

namespace warren::ops {

/// The range on which one step of allocate() works, and how.
struct Allocation {
    Allocate how = Allocate::reserve;
    u64 offset = 0;
    u64 length = 0;
    i64 now = 0;

    WARREN_HD u64 end() const { return offset + length; }
    WARREN_HD u64 block() const { return offset / format::block_size; }
    WARREN_HD bool is_punch() const { return how == Allocate::punch_hole; }
    WARREN_HD bool is_zero() const {
        return how == Allocate::zero_range || how == Allocate::zero_range_keep_size;
    }
    WARREN_HD bool keeps_size() const {
        return how != Allocate::reserve && how != Allocate::zero_range;
    }
    /// The first block that the range covers completely.
    WARREN_HD u64 whole_begin() const { return blocks_of(offset); }
    /// The end of the blocks that the range covers completely; the file's last block counts as one
    /// if the range reaches the end of the file.
    WARREN_HD u64 whole_end(u64 size) const {
        return end() >= size ? blocks_of(end()) : end() / format::block_size;
    }
    /// How many bytes of the range are done when all blocks before `block` are done.
    WARREN_HD u64 done(u64 block) const {
        return bytes_of(block) < end() ? bytes_of(block) - offset : length;
    }
    /// The size that the file must have at least when `done_bytes` of the range are done. Only the
    /// last step sets it; 0 for the others.
    WARREN_HD u64 size_after(u64 done_bytes) const {
        return done_bytes == length && !keeps_size() ? end() : 0;
    }
};

/// Zeros the part of the range that lies in the inode, and sets the size if the range ends there.
template <class Team>
WARREN_HD Errc zero_inline(Operation<Team>& op, const File& file, const Allocation& what) {
    constexpr u64 area = format::area_bytes;
    const u64 begin = what.offset < area ? what.offset : area;
    const u64 end = what.end() < area ? what.end() : area;
    return change_inline(op, file.inode, begin, end, nullptr, what.now, [&] {
        const bool grows = what.end() <= area && !what.keeps_size() && what.end() > file.size;
        if (grows) relaxed_store(file.inode.at->size, what.end());
    });
}

/// Whether the inode holds a byte other than zero in the range.
WARREN_HD inline bool has_bytes_in(const InlineBytes& bytes, const Allocation& what) {
    for (u64 at = what.offset; at < what.end() && at < format::area_bytes; ++at) {
        if ((bytes.words[at / 8] >> at % 8 * 8 & 0xff) != 0) return true;
    }
    return false;
}

/// One step of punching a hole; returns what allocate() returns.
template <class Team>
WARREN_HD Result<u64> punch(Operation<Team>& op, const File& file, const Allocation& what) {
    const u64 begin = what.whole_begin();
    const u64 end = what.whole_end(file.size);
    if (begin >= end) {
        WARREN_TRY(apply_size(op, file, 0, what.now));
        return what.length;
    }
    Cut cut;
    WARREN_TRY(plan_cut(op, file, begin, end, CutFrom::begin, cut));
    const u64 done = cut.is_finished ? what.length : what.done(cut.range.end);
    WARREN_TRY(op.begin_apply(WARREN_CREDITS(cut_dirties(cut))));
    apply_cut(op, file, cut);
    end_contents(op, file.inode, what.now, [] {});
    return done;
}

/// Reserves blocks that replace up to `count` shared blocks at the spot; they lie in one frame.
template <class Team>
WARREN_HD Result<Run> replace_shared(Operation<Team>& op, const Spot& spot, u64 count) {
    const Result<Run> run = reserve_behind(op, spot, blocks_in_frame(spot.place, count));
    if (run) WARREN_TRY(pin_counts(op, spot.place, run->blocks));
    return run;
}

/// One step of reserving or zeroing, at the first block of the range. A hole becomes unwritten
/// blocks. So do data blocks that are to be zeroed, if the range covers them completely.
template <class Team>
WARREN_HD Result<u64> reserve(Operation<Team>& op, const File& file, const Allocation& what) {
    const u64 block = what.block();
    WARREN_LET(found, locate(op, file, block));
    Spot spot = *found;
    // An area that holds only zeros counts as a hole.
    if (file.kind == AreaKind::bytes) {
        spot.kind = MappingKind::hole;
        spot.blocks = key_end - block;
    }
    u64 count = blocks_of(what.end()) - block;
    if (count > spot.blocks) count = spot.blocks;
    ContentChange change;
    if (spot.kind == MappingKind::hole) {
        WARREN_LET(run, reserve_behind(op, spot, count));
        count = run->blocks;
        change.has_extent = true;
        change.is_fresh = true;
        change.extent = {block, BlockPointer::to(run->place), run->blocks,
                         format::extent_unwritten};
    } else if (spot.kind == MappingKind::data && what.is_zero()) {
        const u64 whole_end = what.whole_end(file.size);
        change.has_extent = block >= what.whole_begin() && block < whole_end;
        if (!change.has_extent) {
            count = 1;
        } else if (block + count > whole_end) {
            count = whole_end - block;
        }
        u64 place = spot.place;
        if (spot.is_shared && change.has_extent) {
            WARREN_LET(run, replace_shared(op, spot, count));
            place = run->place;
            count = run->blocks;
            change.is_fresh = true;
            change.dropped_place = spot.place;
        }
        change.extent = {block, BlockPointer::to(place), static_cast<u32>(count),
                         format::extent_unwritten};
    }
    const u64 done = what.done(block + count);
    change.end_bytes = what.size_after(done);
    if (change.has_extent || done == what.length) change.now = what.now;
    WARREN_TRY(apply_change(op, spot, change));
    return done;
}

/// Does a part of fallocate(2) on [offset, offset + length); returns how many bytes from `offset`
/// on are done. The caller calls again for the rest, with the same end, until all are done. 0 means
/// that this step only moved the contents out of the inode into a block, or zeroed them. Only the
/// last step raises the size, if `how` says so; see tail_to_zero(). `writer` is as in fill(); it is
/// given at most one piece, block 0 with the bytes that were in the inode.
template <class Team, class Writer>
WARREN_HD Result<u64> allocate(Operation<Team>& op, Handle handle, Allocate how, u64 offset,
                               u64 length, i64 now, Writer&& writer) {
    if (length == 0) return Errc::invalid;
    if (!format::fits_in_file(offset, length)) return Errc::file_too_big;
    const Allocation what{how, offset, length, now};
    WARREN_LET(file, find_file(op, handle));
    if (file->kind != AreaKind::bytes) {
        return what.is_punch() ? punch(op, *file, what) : reserve(op, *file, what);
    }
    WARREN_LET(bytes, inline_bytes(op, *file));
    const bool is_inside = what.end() <= format::area_bytes;
    if (what.is_punch() || (what.is_zero() && (is_inside || has_bytes_in(*bytes, what)))) {
        WARREN_TRY(zero_inline(op, *file, what));
        return what.is_punch() || is_inside ? length : u64{0};
    }
    if (is_inside) {
        WARREN_TRY(apply_size(op, *file, what.size_after(length), now));
        return length;
    }
    if (bytes->is_zero()) return reserve(op, *file, what);
    WARREN_TRY(move_out(op, handle, *file, writer));
    return u64{0};
}

}  // namespace warren::ops
