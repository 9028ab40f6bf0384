// SPDX-License-Identifier: Apache-2.0
// How a bulk step that removes a tree divides the journal's room. A commit must hold all blocks
// that a step dirties, and a step ends only when each of its warps has noticed that it is full.
//
// Invariant: a step dirties no more blocks than it has credits for. It does not begin if it would
// need more than ops::most_credits(); then names are removed one by one. Only a listing reserves
// more, if the current transaction has room for it.
#pragma once

#include <algorithm>

#include "fs/ops/remove_tree.hpp"

namespace warren::cuda_engine {

struct RemovalShape {
    u32 blocks = 124;  // one for each multiprocessor that the resident server does not use
    u32 warps_per_block = 8;
    u64 queue_capacity = u64{1} << 20;

    constexpr u64 warps() const { return u64{blocks} * warps_per_block; }
};

/// How many blocks a step may dirty until it is full, and then for names in the orphan directory.
/// Names are hashed, so each may lie in another block of that directory, and a new name may split a
/// full leaf. If the directory has many blocks, a step adds few names to it; if it has very many, a
/// step also removes few.
struct StepRoom {
    static constexpr u64 few_min = 33;  // one for each lane of a warp, and the tree's root

    u64 until_full;
    u64 new_blocks;  // new ones of the orphan directory, for detached directories at the end
    u64 old_blocks;  // existing ones of the orphan directory, and those into which they split

    static WARREN_HD constexpr StepRoom of(u64 journal_room) {
        const u64 old = journal_room / 8;
        constexpr u64 old_min = 3 * few_min;
        return {journal_room / 8, journal_room / 32, old > old_min ? old : old_min};
    }
    WARREN_HD constexpr u64 sum() const { return until_full + new_blocks + old_blocks; }
    /// Whether the orphan directory has so many blocks that not all of them could be split.
    WARREN_HD constexpr bool takes_few(u64 orphan_blocks) const {
        return orphan_blocks > old_blocks / 2;
    }
    /// Whether it has so many that not all of them could be dirtied in addition to those that
    /// few_names() new names split.
    WARREN_HD constexpr bool ends_few(u64 orphan_blocks) const {
        return orphan_blocks + few_names() > old_blocks;
    }
    /// How many names a step adds or removes at most when it takes or ends few. Removing a name
    /// dirties one block, adding one dirties two.
    WARREN_HD constexpr u64 few_names() const {
        const u64 few = old_blocks / 8;
        return few > few_min ? few : few_min;
    }
};

static_assert(StepRoom::of(core::journal_room_min).until_full >= core::shared_frames_max,
              "a step has room for the counts of a file");

/// The credits that a step of `warps` warps reserves.
WARREN_HD inline u64 credits_of_step(const core::Store& store, u64 warps) {
    const StepRoom room = StepRoom::of(relaxed_load(store.state->journal_room));
    return room.sum() + ops::dirtied_when_full(store, warps);
}

/// A shape with as many warps as the journal has room for, at least one. Inode bitmaps and the
/// frame table, which all warps may dirty, are counted once, with at least 3/16 of the room. If
/// there are very many of them, as many as each warp can dirty by itself are counted instead.
inline RemovalShape removal_shape_for(const core::Store& store) {
    RemovalShape shape;
    const u64 journal_room = relaxed_load(store.state->journal_room);
    const u64 sum = StepRoom::of(journal_room).sum();
    const u64 most = ops::most_credits(journal_room);
    const u64 room = most > sum ? most - sum : 0;
    const u64 maps = std::max(ops::count_maps(store), journal_room * 3 / 16);
    const u64 beside_all = room > maps ? (room - maps) / ops::dirtied_by_worker : 0;
    const u64 beside_own = room / (ops::dirtied_by_worker + ops::maps_by_worker);
    const u64 warps = std::max(beside_all, beside_own);
    if (warps < shape.warps_per_block) {
        shape.blocks = 1;
        shape.warps_per_block = static_cast<u32>(std::max<u64>(1, warps));
    } else {
        shape.blocks = static_cast<u32>(std::min<u64>(shape.blocks, warps / shape.warps_per_block));
    }
    return shape;
}

/// Whether a commit can hold the blocks for which a step of `warps` warps reserves credits. It
/// cannot in the smallest volumes, nor in one that has grown much, whose frame table is larger than
/// its journal was made for.
inline bool has_room_for_steps(const core::Store& store, u64 warps) {
    return credits_of_step(store, warps) <=
           ops::most_credits(relaxed_load(store.state->journal_room));
}

}  // namespace warren::cuda_engine
