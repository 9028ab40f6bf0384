// SPDX-License-Identifier: Apache-2.0
// The 32-bit state of a directory during bulk reclaim; how a directory is claimed and restored; and
// how freed children are dropped from arrays of pairs.
//
// A claimed directory has no visible root. The shape of its root, the results so far and the number
// of unfinished parts are stored in the inode's device number, which a directory does not use;
// other counters could still be changed by an operation on a name. Invariant: if a directory
// outlives the step that claimed it, its device number is zero again.
#pragma once

#include "fs/bulk/lane_free.hpp"

namespace warren::ops {

struct ClaimedRoot {
    static constexpr u32 changed_bit = 1u << 8;   // some of its names or blocks were freed
    static constexpr u32 leftover_bit = 1u << 9;  // names remain that need operations of their own
    static constexpr u32 waiting_bit = 1u << 10;  // names remain that the next step may free
    static constexpr u32 one_part = 1u << 16;     // in the count of unfinished parts

    u32 word = 0;

    static WARREN_HD ClaimedRoot of(u32 parts, u32 count, u32 height) {
        return {parts * one_part | height << 4 | count};
    }
    WARREN_HD u32 count() const { return word & 0xf; }
    WARREN_HD u32 height() const { return word >> 4 & 0xf; }
    WARREN_HD bool has_changed() const { return (word & changed_bit) != 0; }
    /// Whether some leaf remains; if none does, no array has pairs left.
    WARREN_HD bool keeps_some() const { return (word & (leftover_bit | waiting_bit)) != 0; }
    /// Whether all names that remain need operations of their own.
    WARREN_HD bool has_leftovers_only() const {
        return (word & (leftover_bit | waiting_bit)) == leftover_bit;
    }
};

/// Drops the pairs without a child and returns how many are left. One lane. The pairs may be shared
/// or private.
WARREN_HD inline u32 compact_pairs(TreePair* pairs, u32 count) {
    u32 kept = 0;
    const u64 first_key = relaxed_load(pairs[0].key);
    for (u32 i = 0; i < count; ++i) {
        const u64 child = relaxed_load(pairs[i].child.raw);
        if (child == 0) continue;
        relaxed_store(pairs[kept].key, kept == 0 ? first_key : relaxed_load(pairs[i].key));
        relaxed_store(pairs[kept].child.raw, child);
        ++kept;
    }
    return kept;
}

/// The result of claim_directory().
struct Claim {
    Errc code = Errc::ok;
    u32 count = 0;
    u32 height = 0;
};

/// Locks an inode, waiting for the current holder. One lane, which holds no other lock.
template <class Step>
WARREN_HD u64 lock_inode(const Store& store, Step& step, u64 number) {
    u64 version = 0;
    while (!lock_by_lane(store, step.rules, number * format::inode_size, version))
        step.pause();
    return version;
}

/// Requests two blocks of which at least one is not in memory. True if both are in memory now. One
/// lane.
template <class Step>
WARREN_HD bool bring(Step& step, u64 one, u64 other) {
    const bool has_one = step.want(one);
    return (other == one || step.want(other)) && has_one;
}

/// Hides a directory's tree from all other operations. A part is a range of `range_leaves` leaves,
/// or a node. One lane.
template <u32 range_leaves, class Step>
WARREN_HD Claim claim_directory(const Store& store, Step& step, u64 number) {
    Claim root;
    const u64 bitmap_place = inode_bit(number).bitmap_place;
    if (!is_inode_number(store, number)) return {Errc::corrupt};
    const InodeRef inode = inode_at(store, number);
    const u64 block = inode.block_place();
    // Both loads are issued before either result is used.
    const FrameKind frame = kind_of(store, number / format::inodes_per_frame);
    const bool resident = are_resident(store, block, bitmap_place);
    if (frame != FrameKind::inodes) return {Errc::corrupt};
    if (!resident && !bring(step, block, bitmap_place)) return {Errc::need_block};
    const u64 version = lock_inode(store, step, number);
    Inode& at = *inode.at;
    const u32 generation = relaxed_load(at.generation);
    const u32 mode = relaxed_load(at.mode);
    root.count = relaxed_load(at.area_count);
    root.height = relaxed_load(at.height);
    const u8 kind = relaxed_load(at.area_kind);
    const bool sound = generation != 0 && format::is_directory(mode) &&
                       format::can_be_root(kind, root.count, root.height);
    if (!sound) root.code = Errc::corrupt;
    if (sound) {
        note_changed(store, block);
        // From here on no name can be added: an operation that counts a new name holds the lock of
        // the leaf, and the version of each leaf is raised under its lock.
        mark_dying(at);
        if (root.count != 0) {
            const u32 ranges = (root.count + range_leaves - 1) / range_leaves;
            const u32 parts = root.height == 1 ? ranges : root.count;
            relaxed_store(at.device, ClaimedRoot::of(parts, root.count, root.height).word);
            relaxed_store(at.area_count, 0);
            relaxed_store(at.height, 0);
        }
    }
    unlock_by_lane(store, step.rules, number * format::inode_size, version, sound ? 2 : 0);
    return root;
}

/// Restores the root of a claimed directory with the `kept` pairs that are left. One lane.
template <class Step>
WARREN_HD void restore_directory(const Store& store, Step& step, u64 number, ClaimedRoot root,
                                 u32 kept) {
    const u64 version = lock_inode(store, step, number);
    const InodeRef inode = inode_at(store, number);
    relaxed_store(inode.at->area_count, static_cast<u16>(kept));
    relaxed_store(inode.at->height, static_cast<u8>(kept == 0 ? 0 : root.height()));
    relaxed_store(inode.at->device, 0);
    if (root.has_changed()) LaneOperation(ThreadTeam{}, store).mark_dirty(inode.block_place());
    unlock_by_lane(store, step.rules, number * format::inode_size, version, 2);
}

}  // namespace warren::ops
