// SPDX-License-Identifier: Apache-2.0
// The meta buffer of an engine that has memory of its own: the host supplies a block, and this code
// chooses the one to evict for it. The host is given the evicted block, for it may hold what is not
// on the disk (references to inodes).
//
// Invariant: a block that is in use, dirty or part of an unfinished commit is never evicted. One
// team at a time runs this code, beside any number of commands.
#pragma once

#include "fs/core/head_table.hpp"
#include "fs/core/store.hpp"
#include "team/team.hpp"

namespace warren::ops {

using namespace warren::core;

/// An evicted block with its contents.
struct Evicted {
    u64 place;  // place_none: nothing was evicted
    format::Block block;
};

/// Copies a block by words, which other threads may read and write meanwhile. Collective.
struct CopyWords {
    template <class Team>
    WARREN_HD void operator()(const Team& team, const format::Block& from,
                              format::Block& to) const {
        for (u32 i = team.lane(); i < format::block_size / 8; i += Team::width)
            relaxed_store(to.words[i], relaxed_load(from.words[i]));
    }
};

/// A head whose block may be filled: a free one, or that of a block not used recently, whose place
/// is then in `evicted` (second-chance order, as many heads at once as there are lanes). `hand`:
/// the next head to examine. Errc::need_commit if all are in use or dirty.
template <class Team>
WARREN_HD Result<u32> find_victim(const Team& team, const Store& store, u32& hand, u64& evicted) {
    const HeadTable& table = *store.heads;
    const u32 count = table.head_count;
    u32 at = load(team, hand);
    for (u64 looked = 0; looked < u64{2} * count + Team::width; looked += Team::width) {
        const u32 index = (at + team.lane()) % count;
        Head& head = table.heads[index];
        const u64 place = head.place;
        bool may_go = place == place_none;
        if (!may_go && relaxed_load(head.links) == 0) {
            may_go = relaxed_load(head.used) == 0;
            if (!may_go) relaxed_store(head.used, 0);
        }
        u32 candidates = team.ballot(may_go);
        for (; candidates != 0; candidates &= candidates - 1) {
            const u32 lane = static_cast<u32>(hd::countr_zero(candidates));
            const u32 victim = (at + lane) % count;
            evicted = team.broadcast(place, lane);
            const bool is_ours = once(team, [&] {
                return evicted == place_none || evict_head(table, victim, store.dirty);
            });
            if (!is_ours) continue;
            once(team, [&] { relaxed_store(hand, (victim + 1) % count); });
            return victim;
        }
        at = (at + Team::width) % count;
    }
    once(team, [&] { relaxed_store(hand, at); });
    return Errc::need_commit;
}

/// Makes `from` the block at `place` unless that is resident; `evicted` is the block that was
/// evicted for it. Errc::need_commit, and nothing has changed, if everything is in use or dirty.
template <class Team>
WARREN_HD Errc place_block(const Team& team, const Store& store, u32& hand, u64 place,
                           const format::Block& from, Evicted& evicted) {
    const HeadTable& table = *store.heads;
    once(team, [&] { evicted.place = place_none; });
    const u32 found = once(team, [&] { return link_head(table, place); });
    if (found != head_none) {
        once(team, [&] { unlink_head(table, found); });
        return Errc::ok;
    }
    u64 went = place_none;
    const Result<u32> victim = find_victim(team, store, hand, went);
    if (!victim) return victim.code();
    format::Block& block = table.blocks[*victim];
    if (went != place_none) {
        CopyWords()(team, block, evicted.block);
        once(team, [&] { evicted.place = went; });
    }
    CopyWords()(team, from, block);
    team.sync();
    once(team, [&] {
        insert_head(table, *victim, place);
        unlink_head(table, *victim);
    });
    return Errc::ok;
}

/// Copies the block at `place` as it is. Errc::need_block if it is not resident.
template <class Team>
WARREN_HD Errc read_block(const Team& team, const Store& store, u64 place, format::Block& to) {
    const HeadTable& table = *store.heads;
    const u32 head = once(team, [&] { return link_head(table, place); });
    if (head == head_none) return Errc::need_block;
    CopyWords()(team, table.blocks[head], to);
    team.sync();
    once(team, [&] { unlink_head(table, head); });
    return Errc::ok;
}

/// Keeps the resident block at `place` from eviction until let_go_block(). Returns its memory.
template <class Team>
WARREN_HD const format::Block* hold_block(const Team& team, const Store& store, u64 place) {
    return once(team, [&]() -> const format::Block* {
        const u32 head = link_head(*store.heads, place);
        return head == head_none ? nullptr : &store.heads->blocks[head];
    });
}
template <class Team>
WARREN_HD void let_go_block(const Team& team, const Store& store, u64 place) {
    once(team, [&] {
        const u32 head = link_head(*store.heads, place);
        unlink_head(*store.heads, head);
        unlink_head(*store.heads, head);
    });
}

}  // namespace warren::ops
