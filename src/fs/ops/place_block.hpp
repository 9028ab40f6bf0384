// SPDX-License-Identifier: Apache-2.0
// Placing blocks in a buffer cache: the host's own, or that of an engine that has memory of its
// own. The loader supplies a block, and this code chooses the block to evict for it. The loader
// receives the evicted block, because that may hold state that is not on disk: references to
// inodes.
//
// Invariant: a block that is in use, dirty or part of an unfinished commit is never evicted. Only
// one team at a time runs this code; any number of commands may run at the same time.
#pragma once

#include "fs/core/head_table.hpp"
#include "fs/core/store.hpp"
#include "team/team.hpp"

namespace warren::ops {

using namespace warren::core;

/// An evicted block and its contents.
struct Evicted {
    u64 place;  // place_none: nothing was evicted
    format::Block block;
};

/// Finds a head whose block may be filled: a free head, or one whose block was not used recently
/// and is evicted, with its place in `evicted`. Second-chance order: each step examines as many
/// heads as the team has lanes. `hand` is the next head to examine. Errc::need_commit if all blocks
/// are in use or dirty.
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

/// Makes `from` the resident block at `place`, unless a block is resident there already; `evicted`
/// receives the block that was evicted for it. Errc::need_commit, and nothing has changed, if all
/// blocks are in use or dirty.
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
    WARREN_LET(victim, find_victim(team, store, hand, went));
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

/// Copies the resident block at `place`. Errc::need_block if none is resident there.
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

/// Keeps the block at `place` from eviction until let_go_block(), and returns its memory. Null if
/// it is not resident.
template <class Team>
WARREN_HD const format::Block* hold_block(const Team& team, const Store& store, u64 place) {
    return once(team, [&]() -> const format::Block* {
        const u32 head = link_head(*store.heads, place);
        return head == head_none ? nullptr : &store.heads->blocks[head];
    });
}
template <class Team>
WARREN_HD void let_go_block(const Team& team, const Store& store, u64 place) {
    once(team, [&] { drop_link(*store.heads, place); });
}

}  // namespace warren::ops
