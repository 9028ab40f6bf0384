// SPDX-License-Identifier: Apache-2.0
// Frees an inode of a tree that is being removed, by a single lane: the 32 lanes of a warp free 32
// files at once, a CPU thread one after the other. Only inodes that need no further operation are
// freed here; for any other the result tells the caller the reason.
//
// A lane never waits here and holds no lock afterwards, so diverged lanes cannot block each other.
// Invariant: an inode changes only while the lane holds the lock of its version word. If the result
// is not LaneFate::gone, the inode is unchanged, except that an empty directory may have been
// marked entries_dying. Requires a fully resident store.
#pragma once

#include "fs/ops/dispose.hpp"

namespace warren::ops {

/// What one lane has freed in a step; added to the step's totals when the step ends.
struct FreeTally {
    u64 files = 0;  // names of files
    u64 directories = 0;
    u64 inodes = 0;
    u64 blocks = 0;
};

enum class LaneFate : u8 {
    none,      // no entry to handle
    gone,      // the inode is freed, or one of its several names removed
    descends,  // a directory that is not empty
    keeps,     // needs an operation of its own: it is open, or very large
    waits,     // left for the next step: this one must not dirty more blocks
    busy,      // others hold the inode's lock, or room of the journal: try again
    shares,    // has blocks that others may have too: free_sharing_by_lane() frees it
    absent,    // blocks that are needed are not in memory
    damaged,   // not an inode of the expected type
};

using LaneOperation = Operation<ThreadTeam>;

inline constexpr u32 stripe_none = ~0u;

/// The limits and shared words of a step.
struct LaneRules {
    i64 now = 0;
    u64 dirty_max = 0;        // as many blocks may be dirty for a lane to begin change_if_fits()
    u64* dropping = nullptr;  // how many blocks the lanes announce that are in change_if_fits()
    /// A stripe of version words that the step keeps locked: its lanes use `held_word` instead.
    u32 held_stripe = stripe_none;
    u64* held_word = nullptr;

    WARREN_HD u64& word_of(const Store& store, u64 place) const {
        const u32 stripe = stripe_of(place);
        return stripe == held_stripe ? *held_word : store.versions[stripe];
    }
};

/// Locks `place`, whatever its version is, and returns the version. False if it is locked. A loop
/// that retries terminates: the holder of the lock is running and does not wait while it holds it,
/// or only for a bounded time (a rebuild).
WARREN_HD inline bool lock_by_lane(const Store& store, const LaneRules& rules, u64 place,
                                   u64& version) {
    device_atomic<u64> word(rules.word_of(store, place));
    // Acquire: pairs with the release of the previous holder. A locked word stays as it is.
    version = word.fetch_or(1, hd::memory_order_acquire);
#if !defined(__CUDA_ARCH__)
    // Pairs with fence_acquire() in unchanged(). A GPU needs no fence, which would be slow: the
    // atomic above is a single event at the level-2 cache, so what follows its acquire also follows
    // its write.
    fence_release();
#endif
    return (version & 1) == 0;
}

/// Waits until `place` is unlocked, then raises its version: everything read there before is stale.
template <class Pause>
WARREN_HD void retire_by_lane(const Store& store, const LaneRules& rules, u64 place,
                              const Pause& pause) {
    u64 version = 0;
    while (!lock_by_lane(store, rules, place, version))
        pause();
    device_atomic<u64> word(rules.word_of(store, place));
#if defined(__CUDA_ARCH__)
    // Nothing was written under this lock, and writes of earlier holders are in the level-2 cache.
    word.store(version + 2, hd::memory_order_relaxed);
#else
    // Release: the next user of the word sees what the previous holder released.
    word.store(version + 2, hd::memory_order_release);
#endif
}

/// Unlocks `place`. `step` is 2 if something was written under the lock, else 0.
WARREN_HD inline void unlock_by_lane(const Store& store, const LaneRules& rules, u64 place,
                                     u64 version, u64 step) {
    // Release: pairs with the acquire in observe(), try_locks() and lock_by_lane().
    device_atomic<u64>(rules.word_of(store, place)).store(version + step, hd::memory_order_release);
}

/// Whether the metadata blocks at both addresses are in memory.
WARREN_HD inline bool are_resident(const Store& store, u64 one, u64 other) {
#if defined(__CUDA_ARCH__)
    // Blocks are loaded by copies that end before the bit is set, and relaxed loads read the
    // level-2 cache.
    constexpr auto order = hd::memory_order_relaxed;
#else
    // Acquire: pairs with the release by the loader of the block.
    constexpr auto order = hd::memory_order_acquire;
#endif
    const u64 a = one / format::block_size;
    const u64 b = other / format::block_size;
    const u64 first = device_atomic<u64>(store.resident[a / 64]).load(order) >> a % 64;
    const u64 second = device_atomic<u64>(store.resident[b / 64]).load(order) >> b % 64;
    return (first & second & 1) != 0;
}

/// Marks the block at `place`; `is_dirty`: what the caller has read of it, within this step.
WARREN_HD inline void mark_read(LaneOperation& op, u64 place, bool is_dirty) {
    if (is_dirty) {
        op.mark_changed(place);
    } else {
        op.mark_dirty(place);
    }
}

/// Frees a metadata block. The caller counts it. The loads are issued together, and need no lock: a
/// block that is dirty stays dirty while the step runs.
WARREN_HD inline void free_block(LaneOperation& op, u64 place, FreeTally& tally) {
    const Store& store = op.store;
    const u64 block = place / format::block_size;
    const u64 frame = place / format::frame_size;
    const u64 table = store.table_place(frame);
    const FrameKind kind = kind_of(store, frame);
    const u64 own = relaxed_load(store.dirty[block / 64]);
    const u64 noted = relaxed_load(store.dirty[table / format::block_size / 64]);
    if ((own >> block % 64 & 1) != 0) op.clear_dirty(place);
    device_atomic<u64>(store.frame(frame).used[block % format::blocks_per_frame / 64])
        .fetch_and(~(u64{1} << block % 64), hd::memory_order_relaxed);
    set_bit(space_hints(store, kind), frame);
    ++tally.blocks;
    mark_read(op, table, (noted >> table / format::block_size % 64 & 1) != 0);
}

/// Calls `change()`, which dirties at most `blocks` blocks for which the step has no credits, if
/// they fit into its share of the journal beside those of other lanes that do this at the same
/// time: LaneFate::gone. Otherwise waits if the share is used up, busy if the other lanes may yet
/// leave room.
template <class Change>
WARREN_HD LaneFate change_if_fits(const Store& store, const LaneRules& rules, u64 blocks,
                                  const Change& change) {
    device_atomic<u64> dropping(*rules.dropping);
    const auto fits = [&](u64 others) {
        return relaxed_load(store.state->dirty_blocks) + others + blocks <= rules.dirty_max;
    };
    if (!fits(0)) return LaneFate::waits;
    // A lane that cannot go on takes no room from others.
    if (!fits(dropping.load(hd::memory_order_relaxed))) return LaneFate::busy;
    // Acquire: pairs with the release below. A lane that has left is counted in dirty_blocks.
    const bool goes_on = fits(dropping.fetch_add(blocks, hd::memory_order_acquire));
    if (goes_on) change();
    dropping.fetch_sub(blocks, hd::memory_order_release);
    return goes_on ? LaneFate::gone : LaneFate::busy;
}

/// Removes one of the several links of a locked file.
WARREN_HD inline LaneFate drop_link(LaneOperation& op, const InodeRef& inode, u32 links,
                                    const LaneRules& rules, FreeTally& tally) {
    const u64 place = inode.block_place();
    // The check needs no lock: a block that is dirty stays dirty while the step runs.
    if (test_bit(op.store.dirty, place / format::block_size)) {
        op.mark_changed(place);
    } else {
        const LaneFate marked = change_if_fits(op.store, rules, 1, [&] { op.mark_dirty(place); });
        if (marked != LaneFate::gone) return marked;
    }
    relaxed_store(inode.at->links, links - 1);
    relaxed_store(inode.at->changed, rules.now);
    ++tally.files;
    return LaneFate::gone;
}

/// Sets the hint that `frame` has a free inode, and marks its bitmap as dirty. Most often both are
/// set already. Both loads are issued before either result is used.
WARREN_HD inline void note_free_number(LaneOperation& op, u64 frame, u64 bitmap_place) {
    u64* const room = space_hints(op.store, FrameKind::inodes);
    const u64 block = bitmap_place / format::block_size;
    const u64 frames = relaxed_load(room[frame / 64]);
    const u64 dirty = relaxed_load(op.store.dirty[block / 64]);
    if ((frames >> frame % 64 & 1) == 0) set_bit(room, frame);
    mark_read(op, bitmap_place, (dirty >> block % 64 & 1) != 0);
}

/// Calls `data(extent)` and `metadata(place)` for what an inode that may be freed at once owns.
template <class Data, class Metadata>
WARREN_HD void for_each_own_run(const InodeRef& inode, const InodeParts& seen, const Data& data,
                                const Metadata& metadata) {
    if (seen.kind == AreaKind::extents) {
        for (u32 i = 0; i < seen.count; ++i) {
            data(read_extent(inode.at->area.extents[i]));
        }
    }
    if (seen.kind == AreaKind::target) metadata(BlockPointer{seen.target}.offset());
    if (seen.attributes != 0) metadata(BlockPointer{seen.attributes}.offset());
}

/// Frees a locked inode: its blocks, its bit in the bitmap, its generation. `end_run(extent)`
/// returns how many blocks of an extent it has freed.
template <class EndRun>
WARREN_HD void end_inode_by(LaneOperation& op, const InodeRef& inode, const InodeParts& seen,
                            FreeTally& tally, const EndRun& end_run) {
    const Store& store = op.store;
    for_each_own_run(
        inode, seen, [&](const Extent& extent) { tally.blocks += end_run(extent); },
        [&](u64 place) { free_block(op, place, tally); });
    const u64 bitmap_place = inode_bit(inode.number).bitmap_place;
    auto& bitmap = block_at<format::InodeBitmap>(store, bitmap_place);
    clear_inode_alone(store, inode, seen.generation, bitmap, seen.references != 0);
    note_free_number(op, inode.number / format::inodes_per_frame, bitmap_place);
    ++tally.inodes;
    ++(seen.is_directory() ? tally.directories : tally.files);
}

/// Frees a locked inode whose fate is Fate::free.
WARREN_HD inline void end_inode(LaneOperation& op, const InodeRef& inode, const InodeParts& seen,
                                FreeTally& tally) {
    end_inode_by(op, inode, seen, tally, [&](const Extent& extent) -> u64 {
        end_use(op, extent.start.offset(), extent.length);
        return extent.length;
    });
}

/// The part of free_by_lane() under the lock.
WARREN_HD inline LaneFate free_locked(LaneOperation& op, const InodeRef& inode, bool is_directory,
                                      const LaneRules& rules, FreeTally& tally) {
    const InodeParts seen(*inode.at);
    if (seen.generation == 0 || seen.is_directory() != is_directory) return LaneFate::damaged;
    if (is_directory && seen.count != 0) return LaneFate::descends;
    const Fate fate = fate_of(op.store, inode, seen, is_directory, is_directory);
    if (is_directory && fate == Fate::free) {
        u64 expected = seen.entries & format::entries_dying;
        // From here on no operation can add a name.
        if (!device_atomic<u64>(inode.at->entries)
                 .compare_exchange_strong(expected, format::entries_dying,
                                          hd::memory_order_relaxed)) {
            return LaneFate::descends;
        }
    }
    switch (fate) {
        case Fate::keep:
            return drop_link(op, inode, seen.links, rules, tally);
        case Fate::free:
            end_inode(op, inode, seen, tally);
            return LaneFate::gone;
        case Fate::free_shared:
            return LaneFate::shares;
        case Fate::damaged:
            return LaneFate::damaged;
        default:
            return LaneFate::keeps;
    }
}

/// Whether a bitmap in memory says that no inode has this number. The block of such a number may
/// wait for a run on a replica, which waits for the step.
WARREN_HD inline bool is_free_number(const Store& store, u64 number) {
    const InodeBit bit = inode_bit(number);
    if (!is_resident(store, bit.bitmap_place)) return false;
    const auto& bitmap = block_at<format::InodeBitmap>(store, bit.bitmap_place);
    return (relaxed_load(bitmap.used[bit.word]) & bit.mask) == 0;
}

/// Frees the inode of an entry of a directory that is being removed, or removes one of its links.
/// Requires: a bulk step; no other thread handles this entry; the lane holds no lock.
WARREN_HD inline LaneFate free_by_lane(const Store& store, u64 number, bool is_directory,
                                       const LaneRules& rules, FreeTally& tally) {
    if (!is_inode_number(store, number)) return LaneFate::damaged;
    LaneOperation op(ThreadTeam{}, store);
    const u64 place = number * format::inode_size;
    const InodeRef inode = inode_at(store, number);
    // Both loads are issued before either result is used.
    const FrameKind kind = kind_of(store, number / format::inodes_per_frame);
    const bool resident = are_resident(store, inode.block_place(), inode_bit(number).bitmap_place);
    if (kind != FrameKind::inodes) return LaneFate::damaged;
    if (!resident) return is_free_number(store, number) ? LaneFate::damaged : LaneFate::absent;
    if (is_directory) {
        // Read without the lock, since it is only a hint: most directories are not empty.
        const u64 names = relaxed_load(inode.at->entries) & ~format::entries_dying;
        const u32 parts = relaxed_load(inode.at->area_count);
        if (names != 0 || parts != 0) return LaneFate::descends;
    }
    u64 version = 0;
    if (!lock_by_lane(store, rules, place, version)) return LaneFate::busy;
    const LaneFate fate = free_locked(op, inode, is_directory, rules, tally);
    unlock_by_lane(store, rules, place, version, fate == LaneFate::gone ? 2 : 0);
    return fate;
}

/// The blocks of counts that an inode with shared blocks needs.
struct LaneCounts {
    Errc code = Errc::ok;  // need_block, corrupt
    u64 clean = 0;         // how many are not dirty yet, at most shared_frames_max
};

WARREN_HD inline LaneCounts look_at_counts(LaneOperation& op, const InodeRef& inode, u32 extents) {
    LaneCounts counts;
    const auto look = [&](u64 frame, u32, u32) {
        if (counts.code != Errc::ok) return;
        const Result<ReferenceBlock*> found = find_counts(op, frame);
        counts.code = found.code();
        if (counts.code != Errc::ok || *found == nullptr) return;
        const u64 block = counts_pointer(op, frame).offset() / format::block_size;
        // The check needs no lock: a block that is dirty stays dirty while the step runs.
        if (!test_bit(op.store.dirty, block)) ++counts.clean;
    };
    for (u32 i = 0; i < extents; ++i) {
        const Extent extent = read_extent(inode.at->area.extents[i]);
        if (!format::is_shared(extent)) continue;
        for_each_frame_part(extent.start.offset(), extent.length, look);
    }
    return counts;
}

/// The part of free_sharing_by_lane() under the lock.
WARREN_HD inline LaneFate free_sharing_locked(LaneOperation& op, const InodeRef& inode,
                                              const LaneRules& rules, FreeTally& tally) {
    const InodeParts seen(*inode.at);
    const Fate fate = fate_of(op.store, inode, seen, false, false);
    if (fate != Fate::free_shared) return LaneFate::busy;  // changed since: look at it again
    const LaneCounts counts = look_at_counts(op, inode, seen.count);
    if (counts.code == Errc::need_block) return LaneFate::absent;
    // The operation that frees the orphan tells why.
    if (counts.code != Errc::ok) return LaneFate::keeps;
    const auto end = [&] {
        end_inode_by(op, inode, seen, tally,
                     [&](const Extent& extent) { return end_extent(op, extent); });
    };
    if (counts.clean != 0) return change_if_fits(op.store, rules, counts.clean, end);
    end();
    return LaneFate::gone;
}

/// Frees a file of which free_by_lane() has said that it shares blocks, as that would. With
/// LaneFate::absent, `needed` is the address of the block that is not in memory.
WARREN_HD inline LaneFate free_sharing_by_lane(const Store& store, u64 number,
                                               const LaneRules& rules, FreeTally& tally,
                                               u64& needed) {
    LaneOperation op(ThreadTeam{}, store);
    const u64 place = number * format::inode_size;
    u64 version = 0;
    if (!lock_by_lane(store, rules, place, version)) return LaneFate::busy;
    const LaneFate fate = free_sharing_locked(op, inode_at(store, number), rules, tally);
    unlock_by_lane(store, rules, place, version, fate == LaneFate::gone ? 2 : 0);
    needed = op.needed_place;
    return fate;
}

}  // namespace warren::ops
