// SPDX-License-Identifier: Apache-2.0
// Turns blocks of a file into holes, in steps that each fit in one transaction: the common part of
// truncation, hole punching and removal.
//
// Invariant: a step frees blocks of one list, and the list's leaf if that becomes empty, and
// dirties at most cut_dirties_max metadata blocks. When the step has applied, nothing refers to the
// blocks that it freed; a shared block only loses a reference.
#pragma once

#include "fs/core/shared_blocks.hpp"
#include "fs/core/tree_path.hpp"
#include "fs/ops/map.hpp"

namespace warren::ops {

inline constexpr u32 cut_tables_max = 24;  // frame-table blocks that one step dirties for data

/// The end of the range at which a step begins.
enum class CutFrom : u8 { begin, end };

/// Limits how many metadata blocks a step dirties. Each of them describes `span` bytes of the
/// volume, such as a block of the frame table. One lane.
struct SpanBudget {
    u64 span;
    u32 left;
    u64 newest = ~u64{0};

    /// How many blocks of a run may be freed, counted from the end of the run that `from` names.
    WARREN_HD u64 take(u64 place, u64 blocks, CutFrom from) {
        const u64 last = place + (blocks - 1) * format::block_size;
        const u64 low = place / span;
        const u64 high = last / span;
        const u64 nearest = from == CutFrom::begin ? low : high;
        const u64 free_of_charge = nearest == newest ? 1 : 0;
        const u64 count = high - low + 1;
        const u64 allowed = left + free_of_charge;
        if (allowed == 0) return 0;
        if (count <= allowed) {
            left = static_cast<u32>(allowed - count);
            newest = from == CutFrom::begin ? high : low;
            return blocks;
        }
        left = 0;
        const u64 bound =
            from == CutFrom::begin ? (low + allowed) * span : (high + 1 - allowed) * span;
        return from == CutFrom::begin ? (bound - place) / format::block_size
                                      : (last - bound) / format::block_size + 1;
    }
};

/// The part of a range that one step frees.
struct CutRange {
    u64 begin = 0;
    u64 end = 0;
    u32 tables = 0;        // the greatest number of frame-table blocks it dirties
    u32 counts = 0;        // the greatest number of reference blocks it dirties
    bool is_sound = true;  // all extents that were read can be valid
    bool frees = false;    // there are blocks to be freed
};

/// As much of [begin, end) of `list` as the limits allow, from the end that `from` names. One lane.
WARREN_HD inline CutRange limit_cut(const Store& store, const ExtentList& list, u64 begin, u64 end,
                                    CutFrom from) {
    CutRange range{begin, end};
    SpanBudget tables{table_span_bytes, cut_tables_max};
    SpanBudget counts{format::frame_size, shared_frames_max};
    const u32 first = search_extents(ThreadTeam{}, list, begin);
    u32 last = first;
    while (last < list.count && relaxed_load(list.at[last].file_block) < end)
        ++last;
    for (u32 i = 0; i < last - first; ++i) {
        const u32 index = from == CutFrom::begin ? first + i : last - 1 - i;
        const Extent extent = read_extent(list.at[index]);
        range.is_sound = is_sound(store, extent);
        if (!range.is_sound) return range;
        const u64 low = extent.file_block > begin ? extent.file_block : begin;
        const u64 high = end_of(extent) < end ? end_of(extent) : end;
        if (low >= high) continue;
        u64 gone = tables.take(place_at(extent, low), high - low, from);
        if (gone > 0 && format::is_shared(extent)) {
            const u64 first_gone = from == CutFrom::begin ? low : high - gone;
            gone = counts.take(place_at(extent, first_gone), gone, from);
        }
        if (gone > 0) range.frees = true;
        if (gone == high - low) continue;
        if (from == CutFrom::begin) {
            range.end = low + gone;
        } else {
            range.begin = high - gone;
        }
        break;
    }
    range.tables = cut_tables_max - tables.left;
    range.counts = shared_frames_max - counts.left;
    return range;
}

/// The plan of one step.
struct Cut {
    ExtentHome home;
    TreePath path;  // of the leaf, if the file has a tree
    CutRange range;
    bool empties = false;      // the leaf becomes empty and is removed
    bool is_finished = false;  // after this step nothing of the whole range is left
};

/// The greatest number of blocks that apply_cut() dirties: the inode, the list, blocks of the frame
/// table and of references, and those that removing the leaf dirties.
WARREN_HD constexpr u32 cut_dirties(const Cut& cut) {
    return 2 + cut.range.tables + cut.range.counts + (cut.empties ? unhook_dirties(cut.path) : 0);
}
inline constexpr u32 cut_dirties_max = 2 + cut_tables_max + shared_frames_max + unhook_dirties_max;
static_assert(cut_dirties_max <= journal_room_min);

/// Finds the list that covers `key`, on which a step works, and the path to its leaf.
template <class Team>
WARREN_HD Errc find_cut(Operation<Team>& op, const File& file, u64 key, Cut& cut) {
    const bool is_tree = file.kind == AreaKind::tree;
    if (is_tree) WARREN_TRY(find_path(op, file.inode, extent_tree, key, cut.path));
    WARREN_LET(home, is_tree ? leaf_home(op, file.inode, cut.path.descent)
                             : inline_home(op, file.inode, file.kind));
    cut.home = *home;
    return Errc::ok;
}

/// Pins the counts of the shared blocks in `range`, once for each change from one frame to another.
/// limit_cut() ensures that there are at most shared_frames_max of these.
template <class Team>
WARREN_HD Errc pin_counts_of(Operation<Team>& op, const ExtentHome& home, const CutRange& range) {
    Errc code = Errc::ok;
    u64 newest = ~u64{0};  // the frame whose counts were pinned last
    for_each_run(op.team, home.list, range.begin, range.end, [&](const Extent& part) {
        if (!format::is_shared(part)) return;
        for_each_frame_part(part.start.offset(), part.length, [&](u64 frame, u32, u32) {
            if (code != Errc::ok || frame == newest) return;
            code = find_counts(op, frame).code();
            newest = frame;
        });
    });
    return code;
}

/// Plans one step that turns blocks of [begin, end) into holes, beginning at the end that `from`
/// names. Notes the inode for writing. Errc::need_split if a hole in the middle of an extent needs
/// room in the list.
template <class Team>
WARREN_HD Errc plan_cut(Operation<Team>& op, const File& file, u64 begin, u64 end, CutFrom from,
                        Cut& cut) {
    WARREN_TRY(find_cut(op, file, from == CutFrom::begin ? begin : end - 1, cut));
    const ExtentHome& home = cut.home;
    const u64 low = begin > home.lower ? begin : home.lower;
    const u64 high = end < home.upper ? end : home.upper;
    cut.range = once(op.team, [&] { return limit_cut(op.store, home.list, low, high, from); });
    WARREN_TRY(op.confirm(home.seen));
    if (!cut.range.is_sound) return Errc::corrupt;
    const bool is_whole = cut.range.begin == low && cut.range.end == high;
    cut.is_finished = is_whole && low == begin && high == end;
    const u32 count = once(op.team, [&] {
        return count_after_replace(home.list, cut.range.begin, cut.range.end, nullptr);
    });
    cut.empties = home.is_tree && !cut.path.descent.empty && count == 0;
    if (cut.range.frees) {
        WARREN_TRY(check_room(op, file.inode, home, cut.range.begin, cut.range.end, nullptr));
    }
    if (cut.range.counts > 0) WARREN_TRY(pin_counts_of(op, home, cut.range));
    WARREN_TRY(op.will_write(file.inode.seen));
    if (cut.range.frees || cut.empties) WARREN_TRY(op.will_write(home.seen));
    return cut.empties ? plan_unhook(op, file.inode, extent_tree, cut.path) : Errc::ok;
}

/// Does what plan_cut() planned. Only within apply.
template <class Team>
WARREN_HD void apply_cut(Operation<Team>& op, const File& file, Cut& cut) {
    u64 freed = 0;
    for_each_run(op.team, cut.home.list, cut.range.begin, cut.range.end, [&](const Extent& part) {
        drop_extent(op, part);
        freed += part.length;
    });
    if (freed > 0) {
        change_extents(op, file.inode, cut.home, cut.range.begin, cut.range.end, nullptr);
        count_blocks(op, file.inode, -static_cast<i64>(freed));
    }
    if (cut.empties) unhook(op, file.inode, extent_tree, cut.path);
}

}  // namespace warren::ops
