// SPDX-License-Identifier: Apache-2.0
// Making a free frame an inode frame, and back. Invariant: before the frame is published, no inode
// of it exists in memory or in its bitmap.
#pragma once

#include "fs/core/inode_table.hpp"

namespace warren::ops {

using namespace warren::core;

/// Zeros the blocks of a frame that are still in memory from an earlier use of the frame.
template <class Team>
WARREN_HD void wipe_resident_blocks(Operation<Team>& op, u64 frame) {
    for (u64 b = 0; b < format::blocks_per_frame; ++b) {
        const u32 mark = op.pin_mark();
        const Result<Block*> block = op.pin(frame * format::frame_size + b * format::block_size);
        if (!block) continue;
        clear_block(op.team, **block);
        op.release_pins(mark);
    }
}

/// Blocks that start_wiped_inode_frame() marks dirty: the bitmap and a block of the frame table.
inline constexpr u32 inode_frame_blocks_max = 2;
/// Blocks that end_inode_frame() marks dirty: a block of the frame table.
inline constexpr u32 end_frame_blocks_max = 1;

/// Makes a claimed frame an inode frame in which all inodes are free. Requires: the frame's bitmap
/// is resident; all blocks of the frame that are in memory are zero.
template <class Team>
WARREN_HD Errc start_wiped_inode_frame(Operation<Team>& op, u64 frame) {
    const u64 place = frame * format::frame_size;
    WARREN_LET(block, op.pin(place));
    WARREN_TRY(op.begin_apply(WARREN_CREDITS(inode_frame_blocks_max)));
    once(op.team, [&] {
        auto& bitmap = *reinterpret_cast<format::InodeBitmap*>(*block);
        relaxed_store(bitmap.header.kind, static_cast<u16>(format::BlockKind::inode_bitmap));
        // The bitmap takes the block of the first 16 inodes.
        relaxed_store(bitmap.used[0], (u64{1} << format::inodes_per_block) - 1);
        for (u32 w = 0; w < 8; ++w)
            relaxed_store(op.store.frame(frame).used[w], ~u64{0});
        StoreState& state = *op.store.state;
        device_atomic<u64>(state.blocks_used)
            .fetch_add(format::blocks_per_frame, hd::memory_order_relaxed);
        device_atomic<u64>(state.inode_slots)
            .fetch_add(format::inode_slots_per_frame, hd::memory_order_relaxed);
        publish_frame(op.store, frame, FrameKind::inodes);
        note_frame_changed(op.store, frame);
    });
    op.mark_dirty(place);
    op.mark_dirty(op.store.table_place(frame));
    op.end_apply();
    return Errc::ok;
}

/// Makes a claimed frame an inode frame in which all inodes are free. The caller keeps the claim
/// unless this returns Errc::ok.
template <class Team>
WARREN_HD Errc start_inode_frame(Operation<Team>& op, u64 frame) {
    wipe_resident_blocks(op, frame);
    return start_wiped_inode_frame(op, frame);
}

/// The bits of word `w` of a bitmap that stand for inodes. The first 16 bits stand for the bitmap's
/// own block.
WARREN_HD constexpr u64 inode_bits(u32 w) {
    return w == 0 ? ~((u64{1} << format::inodes_per_block) - 1) : ~u64{0};
}

/// Whether no inode of the frame is in use.
WARREN_HD inline bool holds_no_inode(const format::InodeBitmap& bitmap) {
    for (u32 w = 0; w < bitmap_words; ++w) {
        if ((relaxed_load(bitmap.used[w]) & inode_bits(w)) != 0) return false;
    }
    return true;
}

/// Ends the holds of all slots in the first `words` words.
WARREN_HD inline void let_go_slots(format::InodeBitmap& bitmap, u32 words) {
    for (u32 w = 0; w < words; ++w) {
        // Release: pairs with the acquire in hold_slots().
        device_atomic<u64>(bitmap.held[w]).fetch_and(~inode_bits(w), hd::memory_order_release);
    }
}

/// Holds every slot of a frame without inodes. If a slot is in use or held, returns false and holds
/// none.
WARREN_HD inline bool hold_all_slots(format::InodeBitmap& bitmap) {
    u32 held = 0;
    for (; held < bitmap_words; ++held) {
        u64 expected = 0;
        // Acquire: pairs with the release in let_go_slot().
        if (!device_atomic<u64>(bitmap.held[held])
                 .compare_exchange_strong(expected, inode_bits(held), hd::memory_order_acquire,
                                          hd::memory_order_relaxed)) {
            break;
        }
    }
    const bool is_empty = held == bitmap_words && holds_no_inode(bitmap);
    if (!is_empty) let_go_slots(bitmap, held);
    return is_empty;
}

/// Whether a block of the frame is dirty.
WARREN_HD inline bool has_dirty_block(const Store& store, u64 frame) {
    return has_bit(store.dirty + frame * format::words_per_frame);
}

/// Takes the blocks of a claimed frame out of memory, without writing to them. False, and nothing
/// is done, if one is dirty. One lane. Requires: a fully resident store.
WARREN_HD inline bool forget_blocks(const Store& store, u64 frame) {
    if (has_dirty_block(store, frame)) return false;
    note_frame_changed(store, frame);  // the image of a replica drops them, too
    for (u32 w = 0; w < format::words_per_frame; ++w)
        relaxed_store(store.resident[frame * format::words_per_frame + w], u64{0});
    return true;
}

/// Makes an inode frame free. Errc::not_empty if it still has inodes, or if one of its blocks is
/// dirty because inodes were removed since the last commit: that same commit must not free the
/// frame. The blocks stay marked as committed until the commit that contains this change is
/// durable.
template <class Team>
WARREN_HD Errc end_inode_frame(Operation<Team>& op, u64 frame) {
    const u64 place = frame * format::frame_size;
    WARREN_LET(block, op.pin(place));
    auto& bitmap = *reinterpret_cast<format::InodeBitmap*>(*block);
    WARREN_TRY(op.begin_apply(WARREN_CREDITS(end_frame_blocks_max)));
    const bool is_empty = once(op.team, [&] {
        if (!hold_all_slots(bitmap)) return false;
        if (!has_dirty_block(op.store, frame)) return true;
        let_go_slots(bitmap, bitmap_words);
        return false;
    });
    if (!is_empty) {
        // A worker that searched for a number meanwhile saw all slots held and may have cleared the
        // free-space hint.
        once(op.team, [&] { set_bit(space_hints(op.store, FrameKind::inodes), frame); });
        op.cancel_apply();
        return Errc::not_empty;
    }
    once(op.team, [&] {
        StoreState& state = *op.store.state;
        clear_bit(space_hints(op.store, FrameKind::inodes), frame);
        for (u32 w = 0; w < 8; ++w) {
            relaxed_store(op.store.overlays[frame].committed[w], ~u64{0});
            relaxed_store(op.store.frame(frame).used[w], 0);
        }
        relaxed_store(op.store.frame(frame).kind, static_cast<u64>(FrameKind::free));
        device_atomic<u64>(state.blocks_used)
            .fetch_sub(format::blocks_per_frame, hd::memory_order_relaxed);
        device_atomic<u64>(state.inode_slots)
            .fetch_sub(format::inode_slots_per_frame, hd::memory_order_relaxed);
    });
    op.mark_dirty(op.store.table_place(frame));
    op.end_apply();
    return Errc::ok;
}

}  // namespace warren::ops
