// SPDX-License-Identifier: Apache-2.0
// Makes a block that was read from disk resident in a fully resident store: the host's, or that of
// an engine with its own memory.
//
// A block may be freed while it is being read, and an operation that then allocates it fills it and
// makes it resident without waiting for the reader. Invariant: what was read never overwrites what
// that operation has written. The reader reserves the block while it copies, so the block cannot be
// allocated during the copy. If the block is already reserved, the reader copies nothing: the
// holder of the reservation makes it resident or gives it up. Blocks of inodes are not allocated;
// there the reservation excludes a thread that makes the frame a new one, and keeps readers away
// from a block that a run on a replica is filling (engine/replica/taken_room.hpp).
#pragma once

#include "fs/core/change_marks.hpp"
#include "fs/core/frame_bits.hpp"

namespace warren::ops {

using namespace warren::core;
using format::FrameKind;

/// Ends the reservations `bits` in word `w` of a frame of inodes: not of free blocks. One lane.
WARREN_HD inline void end_inode_reservations(const Store& store, u64 frame, u64 w, u64 bits) {
    // Release: pairs with the acquire in reserve_as_it_is().
    device_atomic<u64>(store.overlays[frame].reserved[w])
        .fetch_and(~bits, hd::memory_order_release);
}

/// Ends the reservation of a block. In a frame of inodes it was not one of a free block. One lane.
WARREN_HD inline void end_reservation(const Store& store, u64 place) {
    const u64 frame = place / format::frame_size;
    if (kind_of(store, frame) != FrameKind::inodes) return unreserve(store, place, 1);
    const u64 in_frame = place / format::block_size % format::blocks_per_frame;
    end_inode_reservations(store, frame, in_frame / 64, u64{1} << in_frame % 64);
}

/// Whether the caller must fill the block at `place` and then call end_showing(), or give it up by
/// end_reservation(). If so, the block is not resident, its frame still has the kind for which the
/// caller has its contents, and it is reserved until then. One lane.
WARREN_HD inline bool begin_showing(const Store& store, u64 place, FrameKind kind) {
    if (!reserve_as_it_is(store, place)) return false;
    // From here on a frame that is free, or becomes so, gets no other kind.
    const u64 frame = place / format::frame_size;
    if (!is_resident(store, place) && kind_of(store, frame) == kind) return true;
    end_reservation(store, place);
    return false;
}

/// Makes a block resident that the caller has filled. One lane.
WARREN_HD inline void end_showing(const Store& store, u64 place) {
    make_resident(store, place);
    note_loaded(store, place);
    end_reservation(store, place);
}

/// Makes `from` the resident block at `place`, unless a block there is resident or reserved, or its
/// frame is not of `kind` any more. One lane.
WARREN_HD inline void show_block(const Store& store, u64 place, FrameKind kind,
                                 const format::Block& from) {
    if (!begin_showing(store, place, kind)) return;
    CopyWords()(ThreadTeam{}, from, block_at<format::Block>(store, place));
    end_showing(store, place);
}

}  // namespace warren::ops
