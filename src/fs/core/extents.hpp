// SPDX-License-Identifier: Apache-2.0
// The extents of a regular file: up to 5 lie in its inode, more in the leaves of a tree whose key
// is the file block. This code finds and changes the list that covers a block, and makes room in a
// full list.
//
// Invariant: an extent lies completely within the key range [lower, upper) of its leaf, so one
// descent finds the extent that covers a block. An extent that is put into a leaf is clipped at
// `upper`, and a split falls between extents. No extent of written blocks begins at or after the
// end of the file's last block: extents there are unwritten, and read as zeros if the file grows
// over them.
#pragma once

#include "fs/core/extent_list.hpp"
#include "fs/core/tree_change.hpp"
#include "fs/format/check_structure.hpp"

namespace warren::core {

using format::ExtentLeaf;

/// The list that holds the extent of a block, or would hold it.
struct ExtentHome {
    ExtentList list;
    bool is_bytes = false;  // the area holds bytes: change_extents() turns it into a list
    bool is_tree = false;
    Seen seen;      // version that guards the list: the inode's or the leaf's
    u64 lower = 0;  // the list holds all extents of the file in [lower, upper)
    u64 upper = key_end;
};

/// Whether the extent can be valid: its bounds are legal, and it begins and ends in data frames of
/// this volume. One lane.
WARREN_HD inline bool is_sound(const Store& store, const Extent& extent) {
    if (!format::extent_is_sound(extent, store.size_bytes)) return false;
    const u64 last = place_at(extent, end_of(extent) - 1);
    return kind_of(store, extent.start.offset() / format::frame_size) == FrameKind::data &&
           kind_of(store, last / format::frame_size) == FrameKind::data;
}

/// The list in the leaf of `descent`, whose kind and owner the caller has checked.
template <class Team>
WARREN_HD Result<ExtentHome> leaf_home(Operation<Team>& op, const InodeRef& inode,
                                       const Descent& descent) {
    ExtentHome home;
    home.is_tree = true;
    if (descent.empty) {
        home.seen = inode.seen;
        return home;
    }
    auto* leaf = reinterpret_cast<ExtentLeaf*>(descent.leaf);
    home.list = {leaf->extents, load(op.team, leaf->count), format::leaf_extents_max};
    home.seen = descent.leaf_seen;
    home.lower = descent.lower;
    home.upper = descent.upper;
    WARREN_TRY(op.confirm(home.seen));
    if (home.list.count > home.list.max || home.lower >= home.upper) return Errc::corrupt;
    return home;
}

/// The list in the area of the inode. `kind` is the kind of the area: bytes or extents.
template <class Team>
WARREN_HD Result<ExtentHome> inline_home(Operation<Team>& op, const InodeRef& inode,
                                         AreaKind kind) {
    ExtentHome home;
    home.seen = inode.seen;
    home.is_bytes = kind == AreaKind::bytes;
    home.list = {inode.at->area.extents, 0, format::inline_extents_max};
    if (!home.is_bytes) home.list.count = load(op.team, inode.at->area_count);
    WARREN_TRY(op.confirm(inode.seen));
    return home.list.count <= home.list.max ? Result<ExtentHome>(home) : Errc::corrupt;
}

/// The list that covers `block`. The caller has read `kind` under inode.seen.
template <class Team>
WARREN_HD Result<ExtentHome> find_home(Operation<Team>& op, const InodeRef& inode, AreaKind kind,
                                       u64 block) {
    if (kind != AreaKind::tree) return inline_home(op, inode, kind);
    Descent descent;
    WARREN_TRY(descend(op, inode, extent_tree, block, descent));
    return leaf_home(op, inode, descent);
}

/// Errc::need_split unless the list has room for replacing [begin, end) by `with`, or by a hole if
/// null.
template <class Team>
WARREN_HD Errc check_room(Operation<Team>& op, const InodeRef& inode, const ExtentHome& home,
                          u64 begin, u64 end, const Extent* with) {
    const u32 count =
        once(op.team, [&] { return count_after_replace(home.list, begin, end, with); });
    WARREN_TRY(op.confirm(home.seen));
    if (count <= home.list.max) return Errc::ok;
    return op.need_structure(Errc::need_split, inode.number, begin);
}

/// Makes the area of `inode` an empty area of kind `kind`. One lane, within apply.
WARREN_HD inline void clear_area(const InodeRef& inode, AreaKind kind) {
    for (u64& word : inode.at->area.words)
        relaxed_store(word, 0);
    relaxed_store(inode.at->area_kind, static_cast<u8>(kind));
    relaxed_store(inode.at->area_count, 0);
    relaxed_store(inode.at->height, 0);
}

/// Replaces [begin, end) by `with`, or by a hole if `with` is null. Only within apply, after
/// check_room(), with the inode and the list locked.
template <class Team>
WARREN_HD void change_extents(Operation<Team>& op, const InodeRef& inode, const ExtentHome& home,
                              u64 begin, u64 end, const Extent* with) {
    once(op.team, [&] {
        if (home.is_bytes) clear_area(inode, AreaKind::extents);
        ExtentList list = home.list;
        replace_range(list, begin, end, with);
        if (home.is_tree) {
            auto* leaf = reinterpret_cast<ExtentLeaf*>(reinterpret_cast<std::byte*>(list.at) -
                                                       offsetof(ExtentLeaf, extents));
            relaxed_store(leaf->count, list.count);
        } else {
            relaxed_store(inode.at->area_count, static_cast<u16>(list.count));
        }
    });
    op.mark_dirty(home.is_tree ? home.seen.place : inode.block_place());
}

/// Tells the code for trees how extent leaves are split.
struct ExtentLeafType {
    static constexpr TreeKinds kinds = extent_tree;

    /// The key at which to split the leaf. If `key` is at or after the last extent, the split is at
    /// `key` or at that extent, so that files that grow leave full leaves; otherwise at the median.
    template <class Team>
    WARREN_HD Result<u64> pivot(Operation<Team>& op, Descent& descent, u64 key) const {
        return once(op.team, [&]() -> Result<u64> {
            const auto& leaf = *reinterpret_cast<const ExtentLeaf*>(descent.leaf);
            const u32 count = relaxed_load(leaf.count);
            if (count < 2 || count > format::leaf_extents_max) return Errc::retry;
            const Extent last = read_extent(leaf.extents[count - 1]);
            if (key >= end_of(last)) return key;
            if (key >= last.file_block) return last.file_block;
            return relaxed_load(leaf.extents[count / 2].file_block);
        });
    }

    /// Moves the extents from block `pivot` on into the new leaf `to`.
    template <class Team>
    WARREN_HD void move_upper(Operation<Team>& op, Block* from, Block* to, u64 pivot) const {
        auto& source = *reinterpret_cast<ExtentLeaf*>(from);
        auto& target = *reinterpret_cast<ExtentLeaf*>(to);
        const u32 count = load(op.team, source.count);
        const ExtentList list{source.extents, count, format::leaf_extents_max};
        const u32 first = search_extents(op.team, list, pivot);
        for (u32 i = first + op.team.lane(); i < count; i += Team::width) {
            write_extent(target.extents[i - first], read_extent(source.extents[i]));
            write_extent(source.extents[i], {});
        }
        op.team.sync();
        once(op.team, [&] {
            relaxed_store(target.count, count - first);
            relaxed_store(source.count, first);
        });
    }
};

/// Moves the extents that lie in the inode into the first leaf of a new tree.
template <class Team>
WARREN_HD Errc start_tree(Operation<Team>& op, const InodeRef& inode, const ExtentHome& home) {
    return put_under_root(op, inode, extent_tree, 1, [&](Block* block) {
        auto* leaf = reinterpret_cast<ExtentLeaf*>(block);
        for (u32 i = 0; i < home.list.count; ++i) {
            write_extent(leaf->extents[i], read_extent(home.list.at[i]));
        }
        relaxed_store(leaf->count, home.list.count);
        clear_area(inode, AreaKind::tree);
    });
}

/// Serves Errc::need_split for `inode`, which is not a directory: makes room for `key`, one step a
/// call. After Errc::ok or Errc::retry, the operation that needed the room starts again.
template <class Team>
WARREN_HD Errc make_extent_room(Operation<Team>& op, const InodeRef& inode, u64 key) {
    const auto kind = static_cast<AreaKind>(load(op.team, inode.at->area_kind));
    WARREN_TRY(op.confirm(inode.seen));
    if (kind == AreaKind::tree) return make_room(op, inode, ExtentLeafType{}, key);
    if (kind != AreaKind::extents) return Errc::ok;
    WARREN_LET(home, inline_home(op, inode, kind));
    // One replacement adds at most two extents.
    if (home->list.count + 2 <= home->list.max) return Errc::ok;
    return start_tree(op, inode, *home);
}

}  // namespace warren::core
