// SPDX-License-Identifier: Apache-2.0
// The references that keep an inode: opens keep its contents, lookups by the kernel keep its
// number. They exist only in memory, in one word of the inode, which changes under the inode's
// lock.
//
// Invariant: while the word of a removed inode is not zero, the inode's number is held in the
// bitmap, and one pin keeps the bitmap in memory (see clear_inode()). The operation that brings the
// word to zero releases both.
#pragma once

#include "fs/ops/lookup.hpp"

namespace warren::ops {

/// Counts an open of the file. Errc::stale if the file has no name and is not open, because it is
/// about to be freed; Errc::overflow if one more open cannot be counted.
template <class Team>
WARREN_HD Errc open_file(Operation<Team>& op, Handle handle) {
    WARREN_LET(inode, find_inode(op, handle));
    const u32 links = load(op.team, inode->at->links);
    const u64 held = load(op.team, inode->at->references);
    WARREN_TRY(op.confirm(inode->seen));
    if (links == 0 && held < one_open) return Errc::stale;
    if (!can_count(held, one_open)) return Errc::overflow;
    WARREN_TRY(op.will_write(inode->seen));
    WARREN_TRY(op.begin_apply(WARREN_CREDITS(reference_blocks_max)));
    add_references(op, *inode, held, one_open);
    op.end_apply();
    return Errc::ok;
}

/// Finds the slot of an inode that may have been removed while references to it were held. As
/// find_inode(), but the generation of a removed inode is 0. Errc::stale if the slot belongs to
/// another inode, or last belonged to another one.
template <class Team>
WARREN_HD Result<InodeRef> find_held(Operation<Team>& op, Handle handle) {
    Result<InodeRef> inode = pin_inode(op, handle.inode);
    if (!inode) return inode;
    const u32 generation = load(op.team, inode->at->generation);
    const u32 last = once(op.team, [&] { return generation_of_removed(*inode->at); });
    WARREN_TRY(op.confirm(inode->seen));
    (*inode).generation = generation;
    const u32 meant = generation != 0 ? generation : last;
    return meant == handle.generation ? inode : Result<InodeRef>(Errc::stale);
}

/// Takes `count` off the references of an inode that find_held() found; returns how many are left.
/// When none is left, the number of a removed inode can be reused.
template <class Team>
WARREN_HD Result<u64> drop_references(Operation<Team>& op, const InodeRef& inode, u64 count) {
    const bool is_removed = inode.generation == 0;
    WARREN_LET(bitmap,
               is_removed ? pin_bitmap(op, inode.number) : Result<format::InodeBitmap*>(nullptr));
    WARREN_TRY(op.will_write(inode.seen));
    WARREN_TRY(op.begin_apply(WARREN_CREDITS(reference_blocks_max)));
    const u64 before = once(op.team, [&] {
        return device_atomic<u64>(inode.at->references).fetch_sub(count, hd::memory_order_relaxed);
    });
    op.mark_changed(inode.block_place());
    if (is_removed && before == count) {
        once(op.team, [&] { let_go_number(op.store, **bitmap, inode.number); });
        op.drop_pinned(inode_bit(inode.number).bitmap_place);
    }
    op.end_apply();
    return before - count;
}

/// Releases one open of a file or directory, which may have been removed meanwhile. True if the
/// caller must free the inode, because it is not open and has no name. If no open is counted the
/// result is Errc::bad_handle, or Errc::stale if the inode was removed.
template <class Team>
WARREN_HD Result<bool> release_file(Operation<Team>& op, Handle handle) {
    WARREN_LET(inode, find_held(op, handle));
    const bool is_removed = inode->generation == 0;
    const bool is_open = load(op.team, inode->at->references) >= one_open;
    const u32 links = load(op.team, inode->at->links);
    WARREN_TRY(op.confirm(inode->seen));
    if (!is_open) return is_removed ? Errc::stale : Errc::bad_handle;
    WARREN_LET(left, drop_references(op, *inode, one_open));
    return !is_removed && *left < one_open && links == 0;
}

/// Releases `count` lookups, or all if there are fewer. Errc::stale if the slot belongs to another
/// inode: then no lookups were held.
template <class Team>
WARREN_HD Errc forget(Operation<Team>& op, Handle handle, u64 count) {
    WARREN_LET(inode, find_held(op, handle));
    const u64 lookups = load(op.team, inode->at->references) & lookups_mask;
    WARREN_TRY(op.confirm(inode->seen));
    const u64 given = count < lookups ? count : lookups;
    return given == 0 ? Errc::ok : drop_references(op, *inode, given).code();
}

}  // namespace warren::ops
