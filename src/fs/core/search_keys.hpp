// SPDX-License-Identifier: Apache-2.0
// Searches a sorted array, in a node of a tree or a list of extents, with all lanes of a team.
// Other threads may change the array meanwhile: the result is always an index in the array, and it
// is meaningful only if the caller then finds that the array has not changed.
#pragma once

#include "team/team.hpp"

namespace warren::core {

/// The index of the last of `count` sorted keys that is not above `key`, 0 if there is none.
/// `key_at(i)` reads key i. W lanes compare W keys at a time; with one lane this is a binary
/// search.
template <class Team, class KeyAt>
WARREN_HD u32 search_keys(const Team& team, u32 count, u64 key, const KeyAt& key_at) {
    u32 low = 0;
    u32 length = count;
    while (length > 1) {
        const u32 probe = low + length * (team.lane() + 1) / (Team::width + 1);
        const bool vote = key_at(probe) <= key;
        const u32 votes = static_cast<u32>(hd::popcount(team.ballot(vote)));
        const u32 begin = votes == 0 ? low : low + length * votes / (Team::width + 1);
        const u32 end =
            votes == Team::width ? low + length : low + length * (votes + 1) / (Team::width + 1);
        low = begin;
        length = end - begin;
    }
    return low;
}

}  // namespace warren::core
