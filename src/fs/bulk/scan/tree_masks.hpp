// SPDX-License-Identifier: Apache-2.0
// What a tree consists of, as bits of block groups: so a scan tells what the removal of the tree
// frees. Only of a tree of which everything can be freed at once; the rules are those of a bulk
// step (ops/removal_rules.hpp).
//
// Invariant: nothing changes in the store meanwhile: it is the image of a replica.
#pragma once

#include "fs/bulk/lane_free.hpp"

namespace warren::bulk {

/// What the tree has in one block group.
struct FrameMasks {
    u64 frame;
    u64 blocks[format::words_per_frame];
    u64 inodes[core::bitmap_words];   // by their numbers in the group
    u64 held[core::bitmap_words];     // those of them with references: their numbers stay held
    u64 sharing[core::bitmap_words];  // those with shared extents, whose blocks are not in `blocks`
};

/// The bits of all block groups.
struct TreeMasks {
    u64* blocks;  // format::words_per_frame for each group of the volume
    u64* inodes;  // bitmap_words for each of the first `inode_frames` groups
    u64* held;
    u64* sharing;
    u64 inode_frames;
};

/// Appends what the tree has in `frame`, if anything, to `rows` and counts it in `count`, also
/// beyond `row_max`. Collective.
template <class Team>
WARREN_HD void gather_masks(const Team& team, const TreeMasks& masks, u64 frame, FrameMasks* rows,
                            u32 row_max, u32& count) {
    const u64* const blocks = masks.blocks + frame * format::words_per_frame;
    const u64* const inodes = masks.inodes + frame * core::bitmap_words;
    const u64* const held = masks.held + frame * core::bitmap_words;
    const u64* const sharing = masks.sharing + frame * core::bitmap_words;
    const u32 words = frame < masks.inode_frames ? core::bitmap_words : 0;
    u64 any = 0;
    for (u32 i = team.lane(); i < format::words_per_frame; i += Team::width)
        any |= blocks[i];
    for (u32 i = team.lane(); i < words; i += Team::width)
        any |= inodes[i];
    if (team.ballot(any != 0) == 0) return;
    const u32 index = once(team, [&] { return relaxed_add(count, 1); });
    if (index >= row_max) return;
    FrameMasks& row = rows[index];
    if (team.is_leader()) row.frame = frame;
    for (u32 i = team.lane(); i < format::words_per_frame; i += Team::width)
        row.blocks[i] = blocks[i];
    for (u32 i = team.lane(); i < core::bitmap_words; i += Team::width) {
        row.inodes[i] = i < words ? inodes[i] : 0;
        row.held[i] = i < words ? held[i] : 0;
        row.sharing[i] = i < words ? sharing[i] : 0;
    }
}

/// Adds the block at `place`. Several lanes may add the same block.
WARREN_HD inline void add_block(const TreeMasks& masks, u64 place) {
    core::set_bit(masks.blocks, place / format::block_size);
}

/// Adds an inode that an entry of the tree names, and what it owns but for the names in a
/// directory. Errc::not_supported if it cannot be freed at once. One lane.
WARREN_HD inline Errc add_inode(const core::Store& image, const TreeMasks& masks, u64 number,
                                bool is_directory) {
    const core::InodeRef inode = core::inode_at(image, number);
    ops::InodeParts seen(*inode.at);
    const bool is_noted = number / format::inodes_per_frame < masks.inode_frames;
    if (!is_noted || seen.generation == 0 || seen.is_directory() != is_directory) {
        return Errc::corrupt;
    }
    // The blocks with its names are added as they are read, so it counts as empty.
    if (is_directory) seen.count = 0;
    const ops::Fate fate = ops::fate_of(image, inode, seen, is_directory, is_directory);
    switch (fate) {
        case ops::Fate::free:
        case ops::Fate::free_shared:
            break;
        case ops::Fate::damaged:
            return Errc::corrupt;
        default:
            return Errc::not_supported;
    }
    // An inode with one link has one name.
    if (!core::set_bit(masks.inodes, number)) return Errc::corrupt;
    if (seen.references != 0) core::set_bit(masks.held, number);
    if (fate == ops::Fate::free_shared) core::set_bit(masks.sharing, number);
    ops::for_each_own_run(
        inode, seen,
        [&](const core::Extent& extent) {
            if (format::is_shared(extent)) return;
            core::for_each_word(
                extent.start.offset(), extent.length, [&](u64 frame, u32 w, u64 mask) {
                    device_atomic<u64>(masks.blocks[frame * format::words_per_frame + w])
                        .fetch_or(mask, hd::memory_order_relaxed);
                });
        },
        [&](u64 place) { add_block(masks, place); });
    return Errc::ok;
}

}  // namespace warren::bulk
