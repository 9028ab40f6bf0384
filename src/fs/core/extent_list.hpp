// SPDX-License-Identifier: Apache-2.0
// Sorted arrays of extents, in an inode's area or in a leaf of the extent tree: finding the extent
// of a block, and replacing a range of blocks by one extent or by a hole.
//
// Invariant: the extents of a list are sorted by file block, none is empty, and none overlap. Two
// extents that adjoin in the file and in the volume and have equal flags are merged, unless the
// result would be longer than extent_length_max. Words after the end of the list are zero.
#pragma once

#include "base/check.hpp"
#include "fs/core/search_keys.hpp"
#include "fs/format/tree.hpp"
#include "team/team.hpp"

namespace warren::core {

using format::Extent;

/// An array of extents in shared memory.
struct ExtentList {
    Extent* at = nullptr;
    u32 count = 0;
    u32 max = 0;
};

WARREN_HD inline Extent read_extent(const Extent& from) {
    return {relaxed_load(from.file_block),
            {relaxed_load(from.start.raw)},
            relaxed_load(from.length),
            relaxed_load(from.flags)};
}

WARREN_HD inline void write_extent(Extent& to, const Extent& extent) {
    relaxed_store(to.file_block, extent.file_block);
    relaxed_store(to.start.raw, extent.start.raw);
    relaxed_store(to.length, extent.length);
    relaxed_store(to.flags, extent.flags);
}

/// The first file block after `extent`.
WARREN_HD constexpr u64 end_of(const Extent& extent) {
    return extent.file_block + extent.length;
}

/// Where the block `file_block` of `extent` lies in the volume. `file_block` may be the extent's
/// end.
WARREN_HD constexpr u64 place_at(const Extent& extent, u64 file_block) {
    return extent.start.offset() + (file_block - extent.file_block) * format::block_size;
}

/// The part of `extent` that covers blocks [begin, end).
WARREN_HD constexpr Extent part_of(const Extent& extent, u64 begin, u64 end) {
    return {begin, format::BlockPointer::to(place_at(extent, begin)), static_cast<u32>(end - begin),
            extent.flags};
}

/// Whether `next` continues `before` in the file and in the volume and may be merged with it.
WARREN_HD constexpr bool can_merge(const Extent& before, const Extent& next) {
    return end_of(before) == next.file_block &&
           place_at(before, next.file_block) == next.start.offset() && before.flags == next.flags &&
           u64{before.length} + next.length <= format::extent_length_max;
}

/// The index of the extent that covers `block`, or of the first one after it, or the number of
/// extents.
template <class Team>
WARREN_HD u32 search_extents(const Team& team, const ExtentList& list, u64 block) {
    if (list.count == 0) return 0;
    const u32 low = search_keys(team, list.count, block,
                                [&](u32 i) { return relaxed_load(list.at[i].file_block); });
    const Extent found = once(team, [&] { return read_extent(list.at[low]); });
    return end_of(found) > block ? low : low + 1;
}

/// A planned replacement: the entries [first, last) become `parts`.
struct ExtentPatch {
    u32 first = 0;
    u32 last = 0;
    u32 count = 0;
    Extent parts[5] = {};
};

WARREN_HD inline void add_part(ExtentPatch& patch, const Extent& extent) {
    if (patch.count > 0 && can_merge(patch.parts[patch.count - 1], extent)) {
        patch.parts[patch.count - 1].length += extent.length;
        return;
    }
    patch.parts[patch.count++] = extent;
}

/// How the list changes if the blocks [begin, end) become `with`, or a hole if `with` is null. One
/// lane.
WARREN_HD inline ExtentPatch make_patch(const ExtentList& list, u64 begin, u64 end,
                                        const Extent* with) {
    ExtentPatch patch;
    const u32 first = search_extents(ThreadTeam{}, list, begin);
    u32 last = first;
    while (last < list.count && relaxed_load(list.at[last].file_block) < end)
        ++last;
    patch.first = first;
    patch.last = last;
    if (with != nullptr && first > 0) {
        patch.first = first - 1;
        add_part(patch, read_extent(list.at[first - 1]));
    }
    if (first < last) {
        const Extent left = read_extent(list.at[first]);
        if (left.file_block < begin) add_part(patch, part_of(left, left.file_block, begin));
    }
    if (with != nullptr) add_part(patch, *with);
    if (first < last) {
        const Extent right = read_extent(list.at[last - 1]);
        if (end_of(right) > end) add_part(patch, part_of(right, end, end_of(right)));
    }
    if (with != nullptr && last < list.count) {
        patch.last = last + 1;
        add_part(patch, read_extent(list.at[last]));
    }
    return patch;
}

/// How many extents the list would have after replace_range() with the same arguments. One lane.
WARREN_HD inline u32 count_after_replace(const ExtentList& list, u64 begin, u64 end,
                                         const Extent* with) {
    const ExtentPatch patch = make_patch(list, begin, end, with);
    return list.count - (patch.last - patch.first) + patch.count;
}

/// Replaces the blocks [begin, end) by `with`, which covers exactly these, or by a hole if `with`
/// is null. Extents there are trimmed or split, and merged with neighbours. The caller stores
/// list.count in the inode or leaf. One lane, with the list locked. Requires: the list has room
/// (see count_after_replace()).
WARREN_HD inline void replace_range(ExtentList& list, u64 begin, u64 end, const Extent* with) {
    const ExtentPatch patch = make_patch(list, begin, end, with);
    const u32 behind = patch.first + patch.count;
    const u32 count = list.count - patch.last + behind;
    WARREN_CHECK(count <= list.max);
    if (behind > patch.last) {
        for (u32 i = list.count; i-- > patch.last;) {
            write_extent(list.at[behind + (i - patch.last)], read_extent(list.at[i]));
        }
    } else if (behind < patch.last) {
        for (u32 i = patch.last; i < list.count; ++i) {
            write_extent(list.at[behind + (i - patch.last)], read_extent(list.at[i]));
        }
    }
    for (u32 i = 0; i < patch.count; ++i) {
        write_extent(list.at[patch.first + i], patch.parts[i]);
    }
    for (u32 i = count; i < list.count; ++i)
        write_extent(list.at[i], {});
    list.count = count;
}

/// Calls `action(part)`, in order, with the part of each extent that lies in [begin, end).
/// Collective.
template <class Team, class Action>
WARREN_HD void for_each_run(const Team& team, const ExtentList& list, u64 begin, u64 end,
                            Action&& action) {
    for (u32 i = search_extents(team, list, begin); i < list.count; ++i) {
        const Extent extent = once(team, [&] { return read_extent(list.at[i]); });
        if (extent.file_block >= end) break;
        const u64 from = extent.file_block > begin ? extent.file_block : begin;
        const u64 to = end_of(extent) < end ? end_of(extent) : end;
        action(part_of(extent, from, to));
    }
}

}  // namespace warren::core
