// SPDX-License-Identifier: Apache-2.0
// Makes a block that was read from the disk resident in a store with the identity map: the host's,
// or that of an engine with its own memory.
//
// A block may be freed while it is being read, and an operation that allocates it then fills it and
// makes it resident without waiting for the reader. Invariant: what was read never overwrites that.
// The copy is made while the block is reserved, so it cannot be allocated meanwhile; and if an
// operation has it reserved, that operation makes it resident and nothing is copied. Blocks of
// inodes are never allocated: an operation that uses one has had it read.
#pragma once

#include "fs/core/frame_bits.hpp"

namespace warren::ops {

using namespace warren::core;
using format::FrameKind;

/// Whether and how a block is filled.
struct Showing {
    bool is_due;       // the caller must fill it, then call end_showing()
    bool is_reserved;  // until then
};

/// Whether the caller must fill the block at `place`: if so, it is not resident and is not
/// allocated until end_showing(). One lane.
WARREN_HD inline Showing begin_showing(const Store& store, u64 place) {
    const u64 frame = place / format::frame_size;
    const FrameKind kind = kind_of(store, frame);
    const bool is_given_out = kind != FrameKind::inodes;
    if (is_given_out && !reserve_as_it_is(store, place)) return {false, false};
    // From here on the frame cannot be freed, but it may have been before, and have another kind
    // now.
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

/// Makes `from` the resident block at `place`, unless that is resident or reserved. One lane.
WARREN_HD inline void show_block(const Store& store, u64 place, const format::Block& from) {
    const Showing showing = begin_showing(store, place);
    if (!showing.is_due) return;
    auto& block = *reinterpret_cast<format::Block*>(store.base + place);
    for (u32 i = 0; i < format::block_size / 8; ++i)
        relaxed_store(block.words[i], relaxed_load(from.words[i]));
    end_showing(store, place, showing);
}

}  // namespace warren::ops
