// SPDX-License-Identifier: Apache-2.0
// The rules for an inode that loses a name, for single operations, batches, bulk removal and the
// freeing of orphans. One lane calls them.
#pragma once

#include "fs/core/extents.hpp"
#include "fs/core/inode_image.hpp"
#include "fs/core/shared_blocks.hpp"
#include "fs/format/check_structure.hpp"

namespace warren::ops {

using namespace warren::core;

inline constexpr u32 release_tables_max = 12;  // frame-table blocks dirtied by inline extents

/// The fields of an inode that decide whether and how it can be freed.
struct InodeParts {
    u32 generation;
    u32 mode;
    u32 links;
    u32 count;
    u64 entries;
    u64 references;
    u64 attributes;
    u64 target;
    AreaKind kind;

    WARREN_HD explicit InodeParts(const Inode& at)
        : generation(relaxed_load(at.generation)),
          mode(relaxed_load(at.mode)),
          links(relaxed_load(at.links)),
          count(relaxed_load(at.area_count)),
          entries(relaxed_load(at.entries)),
          references(relaxed_load(at.references)),
          attributes(relaxed_load(at.attributes.raw)),
          target(relaxed_load(at.area.words[0])),
          kind(static_cast<AreaKind>(relaxed_load(at.area_kind))) {}

    /// From an image that was read by the fast path. Collective.
    template <class Team>
    WARREN_HD InodeParts(const Team& team, const InodeImage<Team>& image)
        : generation(image.inode.generation),
          mode(image.get(team, &Inode::mode)),
          links(image.get(team, &Inode::links)),
          count(image.get(team, &Inode::area_count)),
          entries(image.get(team, &Inode::entries)),
          references(image.get(team, &Inode::references)),
          attributes(image.attributes(team)),
          target(image.template at<u64>(team, offsetof(Inode, area))),
          kind(static_cast<AreaKind>(image.get(team, &Inode::area_kind))) {}

    WARREN_HD bool is_directory() const { return format::is_directory(mode); }
};

/// How the contents of an inode can be freed. light: in one step; shared: in one step if the counts
/// of its shared blocks can be pinned; leaves: in one step if the leaves can be locked too; heavy:
/// in several steps; damaged: not at all, because they are invalid.
enum class FreeCost : u8 { light, shared, leaves, heavy, damaged };

/// The cost of up to five extents, by the number of blocks of the frame table, and of reference
/// counts, that freeing them dirties.
WARREN_HD inline FreeCost cost_of_extents(const Store& store, const InodeRef& inode, u32 count) {
    if (count > format::inline_extents_max) return FreeCost::damaged;
    u64 tables = 0;
    u64 shared_frames = 0;
    for (u32 i = 0; i < count; ++i) {
        const Extent extent = read_extent(inode.at->area.extents[i]);
        if (!is_sound(store, extent)) return FreeCost::damaged;
        const u64 first = extent.start.offset();
        const u64 last = place_at(extent, end_of(extent) - 1);
        tables += last / table_span_bytes - first / table_span_bytes + 1;
        if (format::is_shared(extent)) {
            shared_frames += last / format::frame_size - first / format::frame_size + 1;
        }
    }
    if (tables > release_tables_max || shared_frames > shared_frames_max) return FreeCost::heavy;
    return shared_frames > 0 ? FreeCost::shared : FreeCost::light;
}

/// The cost of a tree. A directory's tree in which the root points directly to leaves can be freed
/// in one step.
WARREN_HD inline FreeCost cost_of_tree(const InodeRef& inode, const InodeParts& seen) {
    if (seen.count == 0) return FreeCost::light;
    const bool is_low = relaxed_load(inode.at->height) == 1 && seen.count <= format::root_pairs_max;
    return seen.is_directory() && is_low ? FreeCost::leaves : FreeCost::heavy;
}

/// The cost of everything that an inode holds.
WARREN_HD inline FreeCost cost_of_contents(const Store& store, const InodeRef& inode,
                                           const InodeParts& seen) {
    const auto is_block = [&](u64 pointer) {
        return format::pointer_is_sound({pointer}, false, store.size_bytes);
    };
    if (seen.attributes != 0 && !is_block(seen.attributes)) return FreeCost::damaged;
    switch (seen.kind) {
        case AreaKind::bytes:
            return FreeCost::light;
        case AreaKind::extents:
            return cost_of_extents(store, inode, seen.count);
        case AreaKind::tree:
            return cost_of_tree(inode, seen);
        case AreaKind::target:
            return is_block(seen.target) ? FreeCost::light : FreeCost::damaged;
    }
    return FreeCost::damaged;
}

enum class Fate : u8 {
    keep,         // it has other names
    free,         // it is freed at once, with everything that it holds
    free_leaves,  // the same if the directory's leaves can be locked too, else an orphan
    free_shared,  // the same in a bulk step if the counts of its blocks can be pinned, else an
                  // orphan
    orphan,       // it becomes an orphan: it is open, or too large to be freed at once
    damaged,
};

/// What becomes of `inode` when it loses a name (for a directory: its only one). `although_open`:
/// opens do not keep it; for a directory that is removed with its tree.
WARREN_HD inline Fate fate_of(const Store& store, const InodeRef& inode, const InodeParts& seen,
                              bool is_directory, bool although_open) {
    if (!is_directory && seen.links > 1) return Fate::keep;
    const FreeCost cost = cost_of_contents(store, inode, seen);
    if (cost == FreeCost::damaged) return Fate::damaged;
    const bool is_held = seen.references >= one_open && !although_open;
    if (is_held || cost == FreeCost::heavy) return Fate::orphan;
    if (cost == FreeCost::shared) return Fate::free_shared;
    return cost == FreeCost::light ? Fate::free : Fate::free_leaves;
}

}  // namespace warren::ops
