// SPDX-License-Identifier: Apache-2.0
// A copy, in the team's own memory, of the node right above the leaves of a large directory: the
// next lookup in the directory finds its leaf without loading the node.
//
// Invariant: a copy holds the whole node as it was at one version; the user of the copy confirms
// that version.
#pragma once

#include "fs/core/inode_image.hpp"

namespace warren::core {

/// A copy of a node right above the leaves, in memory that only one team uses.
struct NodeCopy {
    u32 count;
    WordPair pairs[format::node_pairs_max];

    /// Sets `child` to the child that covers `key`, the lowest key of one hash. False if the keys
    /// of that hash are divided between two children.
    template <class Team>
    WARREN_HD bool choose(const Team& team, u64 key, BlockPointer& child) const {
        u32 passed = 0;
        for (u32 first = 0; first < count; first += Team::width) {
            const u32 i = first + team.lane();
            const u32 votes = team.ballot(i < count && pairs[i].low <= key);
            passed += static_cast<u32>(hd::popcount(votes));
            if (passed != first + Team::width) break;
        }
        child = {pairs[passed == 0 ? 0 : passed - 1].high};
        return passed >= count || pairs[passed].low > (key | 0xff);
    }
};

/// Copies the node that `seen` guards, which must belong to the tree of `owner`. Also confirms
/// `before`, the version of what led to the node. False if the node is not valid or `before` has
/// changed.
template <class Team>
WARREN_HD bool copy_node(const Team& team, const Store& store, const Seen& seen, const Seen& before,
                         const InodeRef& owner, NodeCopy& copy) {
    constexpr u32 heads = 5;  // three pairs of the header, the count, the version of what led here
    const auto* node = reinterpret_cast<const TreeNode*>(store.base + seen.place);
    const auto* header = reinterpret_cast<const WordPair*>(node);
    const auto* pairs = reinterpret_cast<const WordPair*>(node->pairs);
    const BlockIdentity expected = identity_of(BlockKind::directory_node, owner);
    Gathered<Team, WordPair, heads + format::node_pairs_max> items;
    items.read(team, [&](u32 i) {
        if (i == 4) return version_pair(store, before.place);
        return i < heads ? header + i : pairs + (i - heads);
    });
    const bool is_sound = items.all_of(team, [&](u32 i, const WordPair& pair) {
        return expected.agrees(i, pair.low, pair.high) & ((i != 3) | (pair.low >> 32 == 1)) &
               ((i != 4) | shows_version(pair, before));
    });
    const u32 count =
        items.tell(team, 3, [](const WordPair& pair) { return static_cast<u32>(pair.low); });
    if (!is_sound || count == 0 || count > format::node_pairs_max) return false;
    items.for_each_own(team, [&](u32 i, const WordPair& pair) {
        if (i >= heads) copy.pairs[i - heads] = pair;
    });
    if (team.is_leader()) copy.count = count;
    team.sync();
    return true;
}

}  // namespace warren::core
