// SPDX-License-Identifier: Apache-2.0
// Makes a block that was read from disk resident in a fully resident store: the host's, or that of
// an engine with its own memory.
//
// A block may be freed while it is being read, and an operation that then allocates it fills it and
// makes it resident without waiting for the reader. Invariant: what was read never overwrites what
// that operation has written. The reader reserves the block while it copies, so the block cannot be
// allocated during the copy. If the block is already reserved by an operation, that operation makes
// it resident and the reader copies nothing. Blocks of inodes are not allocated this way: an
// operation that uses such a block has waited for it to be read.
#pragma once

#include "fs/core/change_marks.hpp"
#include "fs/core/frame_bits.hpp"

namespace warren::ops {

using namespace warren::core;
using format::FrameKind;

/// Whether the caller has to fill a block.
struct Showing {
    bool is_due;       // the caller must fill it, then call end_showing()
    bool is_reserved;  // the block is reserved until then
};

/// Whether the caller must fill the block at `place`. If so, the block is not resident and cannot
/// be allocated until end_showing(). One lane.
WARREN_HD inline Showing begin_showing(const Store& store, u64 place) {
    const u64 frame = place / format::frame_size;
    const FrameKind kind = kind_of(store, frame);
    const bool is_given_out = kind != FrameKind::inodes;
    if (is_given_out && !reserve_as_it_is(store, place)) return {false, false};
    // From here on the frame cannot be freed; but it may have been freed before that and have
    // another kind now.
    const bool is_due =
        !test_bit(store.resident, place / format::block_size) && kind_of(store, frame) == kind;
    if (is_due) return {true, is_given_out};
    if (is_given_out) unreserve(store, place, 1);
    return {false, false};
}

/// Makes a block resident that the caller has filled. One lane.
WARREN_HD inline void end_showing(const Store& store, u64 place, const Showing& showing) {
    make_resident(store, place);
    note_loaded(store, place);
    if (showing.is_reserved) unreserve(store, place, 1);
}

/// Makes `from` the resident block at `place`, unless a block there is resident or reserved. One
/// lane.
WARREN_HD inline void show_block(const Store& store, u64 place, const format::Block& from) {
    const Showing showing = begin_showing(store, place);
    if (!showing.is_due) return;
    auto& block = *reinterpret_cast<format::Block*>(store.base + place);
    for (u32 i = 0; i < format::block_size / 8; ++i)
        relaxed_store(block.words[i], relaxed_load(from.words[i]));
    end_showing(store, place, showing);
}

}  // namespace warren::ops
