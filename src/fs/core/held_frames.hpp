// SPDX-License-Identifier: Apache-2.0
// Space for entries of the orphan directory, reserved before a bulk step detaches directories from
// their parents. The step must be able to add there every directory that it leaves unfinished, and
// no commit can free space while it runs. An engine whose steps are short takes whole frames, with
// one change of a bitmap word for up to 64 of them.
//
// Invariant: a held frame has no kind and is not among the free frames: no other thread finds it
// until use_held_frame() makes it a metadata frame or let_go_frames() frees it.
#pragma once

#include "fs/core/allocator.hpp"
#include "fs/format/directory.hpp"

namespace warren::core {

// A leaf that was split is at least half full, and a node has many leaves below it. Each of the
// `old` blocks that the orphan directory has may be a full leaf, which the first new name splits.
inline constexpr u64 orphan_names_per_block = format::leaf_entries_max / 2 - 2;
inline constexpr u64 orphan_spare_blocks = 8;  // per team: a split of a leaf may split all above it

/// How many entries `teams` teams together can add to the orphan directory with `blocks` new blocks
/// if it has `old` blocks already.
WARREN_HD constexpr u64 orphan_names_in(u64 blocks, u64 old, u64 teams) {
    const u64 spare = teams * orphan_spare_blocks;
    if (blocks <= spare) return 0;
    const u64 rest = blocks - spare;
    const u64 if_all_split = rest > old ? (rest - old) * orphan_names_per_block : 0;
    const u64 if_each_splits = rest * orphan_names_per_block / (orphan_names_per_block + 1);
    return if_all_split > old ? if_all_split : if_each_splits;
}
WARREN_HD constexpr u64 blocks_for_orphans(u64 names, u64 old, u64 teams) {
    return (names + orphan_names_per_block - 1) / orphan_names_per_block +
           (names < old ? names : old) + teams * orphan_spare_blocks;
}

/// Held frames, as bits that count from frame `first`. A plain value in shared memory.
struct HeldFrames {
    static constexpr u32 words = 4;

    u64 first;
    u64 bits[words];
};

/// The lowest `count` of the bits that are set, or all of them.
WARREN_HD inline u64 lowest_bits(u64 bits, u32 count) {
    if (hd::popcount(bits) <= static_cast<int>(count)) return bits;
    u64 rest = bits;
    for (; count > 0 && rest != 0; --count)
        rest &= rest - 1;
    return bits & ~rest;
}

/// Holds up to `wanted` free frames that have memory, preferring frames after the metadata; returns
/// how many. Errc::need_frame if no free frame has memory, Errc::need_space if no frame is free,
/// Errc::retry if other workers took them. One lane. Requires: `held` holds nothing.
WARREN_HD inline Result<u32> hold_frames(const Store& store, HeldFrames& held, u32 wanted) {
    const u64 memory_end = relaxed_load(store.state->frames_with_memory);
    const u64 mark = relaxed_load(store.state->metadata_frames_end);
    const u64 end =
        memory_end == 0 || memory_end > store.frame_count ? store.frame_count : memory_end;
    u64 frame = find_bit_up(store.frames_free, mark, end);
    if (frame >= end) frame = find_bit_up(store.frames_free, 0, end);
    if (frame >= end) {
        const bool is_full =
            find_bit_up(store.frames_free, end, store.frame_count) == store.frame_count;
        return is_full ? Errc::need_space : Errc::need_frame;
    }
    held.first = frame / 64 * 64;
    const u32 most =
        static_cast<u32>(count_frames_off(store, wanted, frames_kept_from(FrameKind::metadata)));
    u32 count = 0;
    for (u32 w = 0; w < HeldFrames::words; ++w) {
        held.bits[w] = 0;
        const u64 begin = held.first + w * 64;
        if (count == most || begin >= end) continue;
        u64& word = store.frames_free[begin / 64];
        u64 free = relaxed_load(word);
        if (end - begin < 64) free &= (u64{1} << (end - begin)) - 1;
        const u64 asked = lowest_bits(free, most - count);
        held.bits[w] = asked & device_atomic<u64>(word).fetch_and(~asked, hd::memory_order_relaxed);
        count += static_cast<u32>(hd::popcount(held.bits[w]));
    }
    if (count < most) count_free_frames(store, most - count);
    if (count == 0) return Errc::retry;  // other workers took them first
    return count;
}

/// Makes one held frame a metadata frame. Returns false if none is left; the frames that other
/// callers published are then visible. One lane; any number of callers may run at the same time:
/// two may publish the same frame, which has the same effect as once.
WARREN_HD inline bool use_held_frame(const Store& store, HeldFrames& held) {
    for (u32 w = 0; w < HeldFrames::words; ++w) {
        device_atomic<u64> word(held.bits[w]);
        // Acquire: pairs with the release below.
        const u64 bits = word.load(hd::memory_order_acquire);
        if (bits == 0) continue;
        const u32 bit = static_cast<u32>(hd::countr_zero(bits));
        publish_frame(store, held.first + w * 64 + bit, FrameKind::metadata);
        // Release: a thread that finds the bit clear sees the frame published.
        word.fetch_and(~(u64{1} << bit), hd::memory_order_release);
        return true;
    }
    return false;
}

/// Frees the held frames that were not used. Called by the last worker.
WARREN_HD inline void let_go_frames(const Store& store, HeldFrames& held) {
    for (u32 w = 0; w < HeldFrames::words; ++w) {
        const u64 bits = relaxed_load(held.bits[w]);
        if (bits == 0) continue;
        device_atomic<u64>(store.frames_free[held.first / 64 + w])
            .fetch_or(bits, hd::memory_order_relaxed);
        count_free_frames(store, static_cast<u64>(hd::popcount(bits)));
        relaxed_store(held.bits[w], u64{0});
    }
}

}  // namespace warren::core
