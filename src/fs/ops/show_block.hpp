// SPDX-License-Identifier: Apache-2.0
// A block that was read from the disk comes to its place in a store with the identity map: the
// host's, or that of an engine which has memory of its own.
//
// A block may be freed while it is read, and an operation that is given a free block fills it and
// makes it resident without asking whoever reads. Invariant: what was read never comes over that.
// It is copied while the block is reserved, so nobody is given it meanwhile; and if somebody has it
// reserved, he makes it resident himself and nothing is copied. Blocks of inodes are given to
// nobody: who uses one has had it read.
#pragma once

#include "fs/core/frame_bits.hpp"

namespace warren::ops {

using namespace warren::core;
using format::FrameKind;

/// Whether and how a block is filled.
struct Showing {
    bool is_due;       // by the caller, and then end_showing() follows
    bool is_reserved;  // until then
};

/// Says whether the block at `place` is to be filled: nobody has it or is given it until
/// end_showing(). One lane.
WARREN_HD inline Showing begin_showing(const Store& store, u64 place) {
    const u64 frame = place / format::frame_size;
    const FrameKind kind = kind_of(store, frame);
    const bool is_given_out = kind != FrameKind::inodes;
    if (is_given_out && !reserve_as_it_is(store, place)) return {false, false};
    // Now the frame cannot be freed, but it may have been, and be of another kind.
    const bool is_due =
        !test_bit(store.resident, place / format::block_size) && kind_of(store, frame) == kind;
    if (is_due) return {true, is_given_out};
    if (is_given_out) unreserve(store, place, 1);
    return {false, false};
}

/// Makes a block resident that has been filled. One lane.
WARREN_HD inline void end_showing(const Store& store, u64 place, const Showing& showing) {
    const u64 block = place / format::block_size;
    // Release: pairs with the acquire in Operation::pin().
    device_atomic<u64>(store.resident[block / 64])
        .fetch_or(u64{1} << block % 64, hd::memory_order_release);
    if (showing.is_reserved) unreserve(store, place, 1);
}

/// Makes `from` the block at `place`, unless that is resident or about to be. One lane.
WARREN_HD inline void show_block(const Store& store, u64 place, const format::Block& from) {
    const Showing showing = begin_showing(store, place);
    if (!showing.is_due) return;
    auto& block = *reinterpret_cast<format::Block*>(store.base + place);
    for (u32 i = 0; i < format::block_size / 8; ++i)
        relaxed_store(block.words[i], relaxed_load(from.words[i]));
    end_showing(store, place, showing);
}

}  // namespace warren::ops
