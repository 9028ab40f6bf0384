// SPDX-License-Identifier: Apache-2.0
// The tree of directories and of long extent lists, from the root in the inode to the leaves.
// Readers descend without locks; after each step they check that the block they came from is
// unchanged. A tree grows by small transactions, each of which locks a parent and a child
// (tree_change.hpp). A transaction that removes a leaf locks the path to it and, if it was the
// first leaf of its subtree, the left edge of the next one (tree_path.hpp).
//
// Invariant: see fs/format/tree.hpp. A leaf may be empty for a while, until prune() removes it and
// the pair that points to it.
#pragma once

#include "fs/core/block_identity.hpp"
#include "fs/core/search_keys.hpp"
#include "fs/format/check_structure.hpp"

namespace warren::core {

using format::BlockPointer;
using format::tree_height_max;
using format::TreeNode;
using format::TreePair;

inline constexpr u64 key_end = ~u64{0};

/// The block kinds of one kind of tree.
struct TreeKinds {
    BlockKind leaf;
    BlockKind node;
};
inline constexpr TreeKinds directory_tree{BlockKind::directory_leaf, BlockKind::directory_node};
inline constexpr TreeKinds extent_tree{BlockKind::extent_leaf, BlockKind::extent_node};

/// A sorted array of pairs (lowest key, child): the root in an inode, or a node.
struct Pairs {
    TreePair* pairs = nullptr;
    u32 count = 0;
    u32 max = 0;
    u32 height = 0;  // 1: the pairs point to leaves
    bool is_root = false;
    Seen seen;
};

/// The leaf that covers a key, and the array of pairs above it.
struct Descent {
    bool empty = false;  // the tree has no leaf at all
    Pairs above;
    u32 index = 0;  // of the pair that points to the leaf
    Block* leaf = nullptr;
    Seen leaf_seen;
    u64 lower = 0;        // lowest key that the leaf covers
    u64 upper = key_end;  // lowest key that the next leaf covers
};

/// The index of the pair that leads to `key`.
template <class Team>
WARREN_HD u32 search_pairs(const Team& team, const Pairs& where, u64 key) {
    return search_keys(team, where.count, key,
                       [&](u32 i) { return relaxed_load(where.pairs[i].key); });
}

/// The root of the tree in `inode`. Errc::corrupt if it holds no tree.
template <class Team>
WARREN_HD Result<Pairs> root_pairs(Operation<Team>& op, const InodeRef& inode) {
    Pairs root;
    root.is_root = true;
    root.pairs = inode.at->area.pairs;
    root.max = format::root_pairs_max;
    root.seen = inode.seen;
    root.count = load(op.team, inode.at->area_count);
    root.height = load(op.team, inode.at->height);
    const u8 kind = load(op.team, inode.at->area_kind);
    WARREN_TRY(op.confirm(inode.seen));
    if (!format::can_be_root(kind, root.count, root.height)) return Errc::corrupt;
    return root;
}

/// The pairs of the node at `seen`. Errc::corrupt unless it has the identity `expected` and the
/// height `height`.
template <class Team>
WARREN_HD Result<Pairs> node_pairs(Operation<Team>& op, Block* block, const Seen& seen,
                                   const BlockIdentity& expected, u32 height) {
    struct Look {
        u32 count;
        u32 height;
        bool is_own;
    };
    auto* node = reinterpret_cast<TreeNode*>(block);
    Pairs here;
    here.pairs = node->pairs;
    here.max = format::node_pairs_max;
    here.seen = seen;
    const Look look = once(op.team, [&] {
        return Look{relaxed_load(node->count), relaxed_load(node->height),
                    is_own_block(node->header, expected)};
    });
    WARREN_TRY(op.confirm(seen));
    here.count = look.count;
    here.height = look.height;
    const bool sound =
        look.is_own && here.height == height && here.count > 0 && here.count <= here.max;
    if (!sound) return Errc::corrupt;
    return here;
}

/// Observes the block to which `child` leads, which was read from the array that `above` guards.
template <class Team>
WARREN_HD Errc observe_child(Operation<Team>& op, const Seen& above, BlockPointer child,
                             Seen& seen) {
    WARREN_TRY(op.confirm(above));
    if (!child.is_valid() || child.offset() >= op.store.size_bytes) return Errc::corrupt;
    WARREN_TRY(op.observe(child.offset(), seen));
    return op.confirm(above);
}

/// Descends one level: finds the child of `above` that covers `key`, observes and pins it, and
/// narrows the key bounds.
template <class Team>
WARREN_HD Errc step_down(Operation<Team>& op, const Pairs& above, u64 key, Descent& descent) {
    const u32 index = search_pairs(op.team, above, key);
    TreePair pair;
    pair.key = load(op.team, above.pairs[index].key);
    pair.child.raw = load(op.team, above.pairs[index].child.raw);
    const u64 next = index + 1 < above.count ? load(op.team, above.pairs[index + 1].key) : key_end;
    WARREN_TRY(observe_child(op, above.seen, pair.child, descent.leaf_seen));
    WARREN_LET(block, op.pin(pair.child.offset()));
    descent.above = above;
    descent.index = index;
    descent.leaf = *block;
    descent.lower = pair.key;
    if (index + 1 < above.count) descent.upper = next;
    return Errc::ok;
}

/// The pairs of the node to which step_down() has led.
template <class Team>
WARREN_HD Result<Pairs> pairs_below(Operation<Team>& op, const InodeRef& inode, TreeKinds kinds,
                                    const Descent& descent) {
    return node_pairs(op, descent.leaf, descent.leaf_seen, identity_of(kinds.node, inode),
                      descent.above.height - 1);
}

/// Descends from the root to the leaf that covers `key`. Calls `visit()` after each step, when
/// `descent` says where it has led.
template <class Team, class Visit>
WARREN_HD Errc descend(Operation<Team>& op, const InodeRef& inode, TreeKinds kinds, u64 key,
                       Descent& descent, const Visit& visit) {
    descent = Descent{};
    Result<Pairs> here = root_pairs(op, inode);
    if (!here) return here.code();
    if (here->count == 0) {
        descent.empty = true;
        descent.above = *here;
        return Errc::ok;
    }
    for (;;) {
        WARREN_TRY(step_down(op, *here, key, descent));
        visit();
        if (here->height == 1) break;
        here = pairs_below(op, inode, kinds, descent);
        if (!here) return here.code();
    }
    return require_own_block(op, descent.leaf, descent.leaf_seen, identity_of(kinds.leaf, inode));
}
template <class Team>
WARREN_HD Errc descend(Operation<Team>& op, const InodeRef& inode, TreeKinds kinds, u64 key,
                       Descent& descent) {
    return descend(op, inode, kinds, key, descent, [] {});
}

/// A reserved metadata block and its memory, pinned.
struct FreshBlock {
    u64 place = 0;
    Block* at = nullptr;
};

/// Reserves a metadata block for apply. The block is resident from then on; its contents are
/// undefined.
template <class Team>
WARREN_HD Result<FreshBlock> reserve_block(Operation<Team>& op) {
    const Store& store = op.store;
    WARREN_LET(reserved, reserve_blocks(op, FrameKind::metadata, 0, 1));
    const u64 place = reserved->place;
    if (store.heads == nullptr) {
        once(op.team, [&] { make_resident(store, place); });
    }
    WARREN_LET(block, op.pin(place));
    return FreshBlock{place, *block};
}

/// Blocks that start_block() marks dirty: the new block and a block of the frame table.
inline constexpr u32 start_blocks_max = 2;

/// Writes a new block's header and zeros the rest. Only within apply; no other thread can reach the
/// block yet.
template <class Team>
WARREN_HD void start_block(Operation<Team>& op, const FreshBlock& fresh,
                           const BlockIdentity& identity) {
    use_blocks(op, fresh.place, 1);
    clear_block(op.team, *fresh.at);
    once(op.team,
         [&] { start_header(*reinterpret_cast<format::BlockHeader*>(fresh.at), identity); });
    op.mark_dirty(fresh.place);
}

/// Updates the inode's block count for blocks that it gained or lost. Only within apply.
template <class Team>
WARREN_HD void count_blocks(Operation<Team>& op, const InodeRef& inode, i64 blocks) {
    once(op.team, [&] {
        device_atomic<u64>(inode.at->blocks)
            .fetch_add(static_cast<u64>(blocks), hd::memory_order_relaxed);
    });
    op.mark_dirty(inode.block_place());
}

/// As above, for blocks of its tree: the size of a directory is that of its tree.
template <class Team>
WARREN_HD void count_tree_blocks(Operation<Team>& op, const InodeRef& inode, TreeKinds kinds,
                                 i64 blocks) {
    count_blocks(op, inode, blocks);
    if (kinds.leaf != BlockKind::directory_leaf) return;
    once(op.team, [&] {
        device_atomic<u64>(inode.at->size)
            .fetch_add(static_cast<u64>(blocks) * format::block_size, hd::memory_order_relaxed);
    });
}

/// Sets the number of pairs of a root or node. One lane, within apply.
WARREN_HD inline void store_count(const InodeRef& inode, const Pairs& where, u32 count) {
    if (where.is_root) {
        relaxed_store(inode.at->area_count, static_cast<u16>(count));
    } else {
        auto* node = reinterpret_cast<TreeNode*>(reinterpret_cast<std::byte*>(where.pairs) -
                                                 offsetof(TreeNode, pairs));
        relaxed_store(node->count, count);
    }
}

/// The place of the block that holds an array of pairs.
WARREN_HD inline u64 place_of(const InodeRef& inode, const Pairs& where) {
    return where.is_root ? inode.block_place() : where.seen.place;
}

WARREN_HD inline void store_pair(TreePair& at, u64 key, BlockPointer child) {
    relaxed_store(at.key, key);
    relaxed_store(at.child.raw, child.raw);
}

WARREN_HD inline void copy_pair(TreePair& to, const TreePair& from) {
    store_pair(to, relaxed_load(from.key), {relaxed_load(from.child.raw)});
}

/// Inserts a pair at `index`. One lane, within apply. Requires: the array has room.
WARREN_HD inline void insert_pair(const InodeRef& inode, Pairs& where, u32 index, u64 key,
                                  BlockPointer child) {
    for (u32 i = where.count; i > index; --i)
        copy_pair(where.pairs[i], where.pairs[i - 1]);
    store_pair(where.pairs[index], key, child);
    store_count(inode, where, ++where.count);
}

/// Removes pairs [begin, end). If the first pair is removed, the next pair takes over its key; the
/// caller must then set that key in the first pairs of the nodes below too (find_edge()). One lane,
/// within apply.
WARREN_HD inline void erase_pairs(const InodeRef& inode, Pairs& where, u32 begin, u32 end) {
    if (begin == end) return;
    const u64 first_key = relaxed_load(where.pairs[0].key);
    const u32 gone = end - begin;
    for (u32 i = begin; i + gone < where.count; ++i)
        copy_pair(where.pairs[i], where.pairs[i + gone]);
    where.count -= gone;
    if (begin == 0 && where.count > 0) relaxed_store(where.pairs[0].key, first_key);
    store_count(inode, where, where.count);
}

}  // namespace warren::core
