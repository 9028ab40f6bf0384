// SPDX-License-Identifier: Apache-2.0
// How a bulk step that removes a tree shares out the journal's room. A commit must hold all that a
// step dirties, and a step ends only when each of its warps has noticed that it is full.
//
// Invariant: a step dirties no more than it reserves, and is not begun where that is more than
// ops::most_credits(): then names are removed one by one. Only a listing, when the commit at hand
// has room for it, reserves more.
#pragma once

#include <algorithm>

#include "fs/ops/remove_tree.hpp"

namespace warren::cuda_engine {

struct RemovalShape {
    u32 blocks = 124;  // one a multiprocessor, but for those of the resident server
    u32 warps_per_block = 8;
    u64 queue_capacity = u64{1} << 20;

    constexpr u64 warps() const { return u64{blocks} * warps_per_block; }
};

/// What a step dirties until it is full, and then for names in the orphan directory. They are
/// hashed, so each may lie in another of its blocks, and a new one may split a full leaf. Where
/// there are many of these blocks, a step takes few names, and where there are very many it ends
/// few.
struct StepRoom {
    static constexpr u64 few_min = 33;  // those of a warp's lanes, and the tree's root

    u64 until_full;
    u64 new_blocks;  // of the orphan directory, for what is loose when the step is full
    u64 old_blocks;  // of it: those that it has, with what they split into

    static WARREN_HD constexpr StepRoom of(u64 journal_room) {
        const u64 old = journal_room / 8;
        constexpr u64 old_min = 3 * few_min;
        return {journal_room / 8, journal_room / 32, old > old_min ? old : old_min};
    }
    WARREN_HD constexpr u64 sum() const { return until_full + new_blocks + old_blocks; }
    /// Whether so many could not all be split.
    WARREN_HD constexpr bool takes_few(u64 orphan_blocks) const {
        return orphan_blocks > old_blocks / 2;
    }
    /// Whether they could not all be dirtied beside those that few names split.
    WARREN_HD constexpr bool ends_few(u64 orphan_blocks) const {
        return orphan_blocks + few_names() > old_blocks;
    }
    /// A name that is ended dirties a block, one that is taken two.
    WARREN_HD constexpr u64 few_names() const {
        const u64 few = old_blocks / 8;
        return few > few_min ? few : few_min;
    }
};

/// What a step of so many warps reserves.
WARREN_HD inline u64 credits_of_step(const core::Store& store, u64 warps) {
    const StepRoom room = StepRoom::of(relaxed_load(store.state->journal_room));
    return room.sum() + ops::dirtied_when_full(store, warps);
}

/// As many warps as the journal has room for beside bitmaps of inodes and the frame table, for
/// which 3/16 are kept at least; at least one. Where there are very many of these, few warps could
/// not dirty all.
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

/// Whether a commit holds what a step of so many warps reserves: not in the smallest volumes, and
/// not in one that has grown and has a larger frame table than its journal was made for.
inline bool has_room_for_steps(const core::Store& store, u64 warps) {
    return credits_of_step(store, warps) <=
           ops::most_credits(relaxed_load(store.state->journal_room));
}

}  // namespace warren::cuda_engine
