// SPDX-License-Identifier: Apache-2.0
// The path to a leaf that will be removed: the leaf, the nodes above it that lead to no other leaf,
// and the lowest array of pairs that remains and loses a pair. A transaction that empties a leaf
// can remove it with unhook(); prune() removes a leaf that is empty already.
//
// If the first pair of an array is removed, the next pair takes over its key, and so must the first
// pairs of all nodes below that pair: otherwise a later split of a leaf there could insert a lower
// key behind theirs, and the pairs would no longer be sorted.
//
// Invariant: the blocks that unhook() frees are reachable only through the pair at cut_index.
#pragma once

#include "fs/core/tree_change.hpp"

namespace warren::core {

struct TreePath {
    Pairs cut;  // the lowest array that keeps other pairs, or else the root; none in an empty tree
    u32 cut_index = 0;
    Seen chain[tree_height_max + 1];  // the blocks from below `cut` down to the leaf
    u32 chain_length = 0;
    Seen edge[tree_height_max];  // nodes below `cut` whose first pairs take over the removed key
    TreePair* edge_pairs[tree_height_max];
    u32 edge_length = 0;
    Descent descent;
};

/// Descends to the leaf that covers `key` and records the path; sets path.descent.empty if the tree
/// has no leaf.
template <class Team>
WARREN_HD Errc find_path(Operation<Team>& op, const InodeRef& inode, TreeKinds kinds, u64 key,
                         TreePath& path) {
    path = TreePath{};
    const Descent& here = path.descent;
    return descend(op, inode, kinds, key, path.descent, [&] {
        if (here.above.count > 1 || here.above.is_root) {
            path.cut = here.above;
            path.cut_index = here.index;
            path.chain_length = 0;
        }
        path.chain[path.chain_length++] = here.leaf_seen;
    });
}

/// If the first pair of path.cut will be removed: records the nodes on the left edge of the next
/// pair's subtree.
template <class Team>
WARREN_HD Errc find_edge(Operation<Team>& op, const InodeRef& inode, TreeKinds kinds,
                         TreePath& path) {
    path.edge_length = 0;
    if (path.cut_index != 0 || path.cut.count < 2) return Errc::ok;
    const u64 key = load(op.team, path.cut.pairs[1].key);
    WARREN_TRY(op.confirm(path.cut.seen));
    Pairs above = path.cut;
    Descent beside;
    while (above.height > 1) {
        WARREN_TRY(step_down(op, above, key, beside));
        WARREN_LET(node, pairs_below(op, inode, kinds, beside));
        above = *node;
        path.edge[path.edge_length] = above.seen;
        path.edge_pairs[path.edge_length++] = above.pairs;
    }
    return Errc::ok;
}

/// Plans to remove the leaf of `path` in apply.
template <class Team>
WARREN_HD Errc plan_unhook(Operation<Team>& op, const InodeRef& inode, TreeKinds kinds,
                           TreePath& path) {
    WARREN_TRY(find_edge(op, inode, kinds, path));
    // A tree that this code built is never high enough to need that many locks.
    if (!op.has_lock_room(1 + path.chain_length + path.edge_length)) return Errc::corrupt;
    WARREN_TRY(op.will_write(path.cut.seen));
    for (u32 i = 0; i < path.chain_length; ++i)
        WARREN_TRY(op.will_write(path.chain[i]));
    for (u32 i = 0; i < path.edge_length; ++i)
        WARREN_TRY(op.will_write(path.edge[i]));
    return Errc::ok;
}

/// The greatest number of blocks that unhook() dirties: the array that loses a pair, the inode, the
/// nodes whose first key changes, and for each freed block its block of the frame table.
WARREN_HD constexpr u32 unhook_dirties(const TreePath& path) {
    return 2 + path.chain_length + path.edge_length;
}
inline constexpr u32 unhook_dirties_max = 2 + 2 * tree_height_max;
static_assert(unhook_dirties_max <= journal_room_min);

/// Removes the leaf from the tree and frees it together with the nodes above that lead to nothing
/// else. Only within apply.
template <class Team>
WARREN_HD void unhook(Operation<Team>& op, const InodeRef& inode, TreeKinds kinds, TreePath& path) {
    once(op.team, [&] {
        const u64 first_key = relaxed_load(path.cut.pairs[0].key);
        erase_pairs(inode, path.cut, path.cut_index, path.cut_index + 1);
        for (u32 i = 0; i < path.edge_length; ++i)
            relaxed_store(path.edge_pairs[i]->key, first_key);
        if (path.cut.is_root && path.cut.count == 0) relaxed_store(inode.at->height, u8{0});
    });
    op.mark_dirty(place_of(inode, path.cut));
    for (u32 i = 0; i < path.edge_length; ++i)
        op.mark_dirty(path.edge[i].place);
    for (u32 i = 0; i < path.chain_length; ++i)
        free_metadata(op, path.chain[i].place);
    count_tree_blocks(op, inode, kinds, -static_cast<i64>(path.chain_length));
}

/// Removes the leaf of a directory that covers `key` if it is empty, with the nodes above that lead
/// to nothing else.
template <class Team>
WARREN_HD Errc prune(Operation<Team>& op, const InodeRef& directory, u64 key) {
    TreePath path;
    WARREN_TRY(find_path(op, directory, directory_tree, key, path));
    if (path.descent.empty) return Errc::ok;
    auto& leaf = *reinterpret_cast<format::DirectoryLeaf*>(path.descent.leaf);
    const bool is_empty = load(op.team, leaf.count) == 0;
    WARREN_TRY(op.confirm(path.descent.leaf_seen));
    if (!is_empty) return Errc::ok;
    WARREN_TRY(plan_unhook(op, directory, directory_tree, path));
    WARREN_TRY(op.begin_apply(WARREN_CREDITS(unhook_dirties(path))));
    unhook(op, directory, directory_tree, path);
    op.end_apply();
    return Errc::ok;
}

}  // namespace warren::core
