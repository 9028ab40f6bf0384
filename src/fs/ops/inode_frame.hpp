// SPDX-License-Identifier: Apache-2.0
// A new frame of inodes. Invariant: no inode of it exists in memory or in its bitmap before the
// frame is published.
#pragma once

#include "fs/core/inode_table.hpp"

namespace warren::ops {

using namespace warren::core;

/// Zeros what is still in memory of a frame's former life.
template <class Team>
WARREN_HD void wipe_resident_blocks(Operation<Team>& op, u64 frame) {
    for (u64 b = 0; b < format::blocks_per_frame; ++b) {
        const u32 mark = op.pin_mark();
        const Result<Block*> block = op.pin(frame * format::frame_size + b * format::block_size);
        if (!block) continue;
        for (u32 i = op.team.lane(); i < format::block_size / 8; i += Team::width) {
            relaxed_store((*block)->words[i], 0);
        }
        op.team.sync();
        op.release_pins(mark);
    }
}

/// Makes the claimed frame one of inodes, all free. The claim is the caller's until this answers
/// ok.
template <class Team>
WARREN_HD Errc start_inode_frame(Operation<Team>& op, u64 frame) {
    const u64 place = frame * format::frame_size;
    wipe_resident_blocks(op, frame);
    const Result<Block*> block = op.pin(place);
    if (!block) return block.code();
    WARREN_TRY(op.begin_apply(2));
    once(op.team, [&] {
        auto& bitmap = *reinterpret_cast<format::InodeBitmap*>(*block);
        relaxed_store(bitmap.header.kind, static_cast<u16>(format::BlockKind::inode_bitmap));
        // The bitmap itself lies where the first 16 inodes would.
        relaxed_store(bitmap.used[0], (u64{1} << format::inodes_per_block) - 1);
        for (u32 w = 0; w < 8; ++w)
            relaxed_store(op.store.frame(frame).used[w], ~u64{0});
        StoreState& state = *op.store.state;
        device_atomic<u64>(state.blocks_used)
            .fetch_add(format::blocks_per_frame, hd::memory_order_relaxed);
        device_atomic<u64>(state.inode_slots)
            .fetch_add(format::inodes_per_frame - format::inodes_per_block,
                       hd::memory_order_relaxed);
        publish_frame(op.store, frame, FrameKind::inodes);
    });
    op.mark_dirty(place);
    op.mark_dirty(op.store.table_place(frame));
    op.end_apply();
    return Errc::ok;
}

}  // namespace warren::ops
