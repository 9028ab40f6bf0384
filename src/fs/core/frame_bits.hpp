// SPDX-License-Identifier: Apache-2.0
// Bits of frames: finding one, setting one, and the rule by which a block is free. One lane runs
// these functions.
#pragma once

#include "fs/core/store.hpp"
#include "team/team.hpp"

namespace warren::core {

/// Sets or clears bit `index` of a shared bitmap; true if it changed.
WARREN_HD inline bool set_bit(u64* words, u64 index) {
    const u64 bit = u64{1} << index % 64;
    device_atomic<u64> word(words[index / 64]);
    if ((word.load(hd::memory_order_relaxed) & bit) != 0) return false;
    return (word.fetch_or(bit, hd::memory_order_relaxed) & bit) == 0;
}
WARREN_HD inline bool clear_bit(u64* words, u64 index) {
    const u64 bit = u64{1} << index % 64;
    device_atomic<u64> word(words[index / 64]);
    if ((word.load(hd::memory_order_relaxed) & bit) == 0) return false;
    return (word.fetch_and(~bit, hd::memory_order_relaxed) & bit) != 0;
}
WARREN_HD inline bool test_bit(const u64* words, u64 index) {
    return (relaxed_load(words[index / 64]) >> index % 64 & 1) != 0;
}

/// The first set bit in [begin, end), or `end`.
WARREN_HD inline u64 find_bit_up(const u64* words, u64 begin, u64 end) {
    for (u64 index = begin; index < end; index = (index / 64 + 1) * 64) {
        const u64 word = relaxed_load(words[index / 64]) >> index % 64;
        if (word == 0) continue;
        const u64 found = index + static_cast<u64>(hd::countr_zero(word));
        return found < end ? found : end;
    }
    return end;
}

/// The last set bit in [begin, end), or `end`.
WARREN_HD inline u64 find_bit_down(const u64* words, u64 begin, u64 end) {
    u64 above = end;
    while (above > begin) {
        const u64 base = (above - 1) / 64 * 64;
        const u64 width = above - base;
        u64 word = relaxed_load(words[base / 64]);
        if (width < 64) word &= (u64{1} << width) - 1;
        if (word != 0) {
            const u64 found = base + 63 - static_cast<u64>(hd::countl_zero(word));
            return found >= begin ? found : end;
        }
        above = base;
    }
    return end;
}

WARREN_HD inline format::FrameKind kind_of(const Store& store, u64 frame) {
    return static_cast<format::FrameKind>(relaxed_load(store.frame(frame).kind));
}

/// Whether blocks of the frame are given out by kind: system blocks never are.
WARREN_HD inline u64* room_of(const Store& store, format::FrameKind kind) {
    return store.frames_with_room[static_cast<u32>(kind)];
}

// A thread that frees blocks or inodes does not set the frame's mark again if it is set. On a GPU
// another thread may clear the mark just then without seeing the freed bits; the next commit that
// changes the frame's bits sets it again.

/// Sets the mark of `frame`, so that searches for blocks or inodes include it, even if it seems
/// set. One lane.
WARREN_HD inline void mark_room(const Store& store, format::FrameKind kind, u64 frame) {
    // Release: pairs with the acquire in unmark_room(): a thread that clears this mark sees the
    // freed bits.
    device_atomic<u64>(room_of(store, kind)[frame / 64])
        .fetch_or(u64{1} << frame % 64, hd::memory_order_release);
}

/// Clears the mark, so that searches skip the frame. The caller then checks the frame once more and
/// sets the mark again if something is free. One lane.
WARREN_HD inline void unmark_room(const Store& store, format::FrameKind kind, u64 frame) {
    // Acquire: pairs with the release in mark_room().
    device_atomic<u64>(room_of(store, kind)[frame / 64])
        .fetch_and(~(u64{1} << frame % 64), hd::memory_order_acquire);
}

/// The blocks of word `w` of `frame` that are not in use, not committed as in use, and not
/// reserved.
WARREN_HD inline u64 free_bits(const Store& store, u64 frame, u32 w) {
    return ~(relaxed_load(store.frame(frame).used[w]) |
             relaxed_load(store.overlays[frame].committed[w]) |
             relaxed_load(store.overlays[frame].reserved[w]));
}

/// Gives back reserved bits of one word, whether they were taken into use or not. A worker that
/// searched meanwhile may have found the frame full.
WARREN_HD inline void give_back_bits(const Store& store, u64 frame, u32 w, u64 bits) {
    // Release: pairs with the acquire in reserve_bits().
    device_atomic<u64>(store.overlays[frame].reserved[w])
        .fetch_and(~bits, hd::memory_order_release);
    set_bit(room_of(store, kind_of(store, frame)), frame);
}

/// Reserves the bits of `wanted` in word `w`; returns those that were won.
WARREN_HD inline u64 reserve_bits(const Store& store, u64 frame, u32 w, u64 wanted) {
    device_atomic<u64> reserved(store.overlays[frame].reserved[w]);
    // Acquire: pairs with the release in give_back_bits(): what the bit's last user wrote is
    // visible.
    const u64 won = wanted & ~reserved.fetch_or(wanted, hd::memory_order_acquire);
    const u64 lost = won & (relaxed_load(store.frame(frame).used[w]) |
                            relaxed_load(store.overlays[frame].committed[w]));
    if (lost != 0) give_back_bits(store, frame, w, lost);
    return won & ~lost;
}

/// Reserves the block at `place`, in use or not: until unreserve() it is not allocated. False if it
/// is reserved already. One lane.
WARREN_HD inline bool reserve_as_it_is(const Store& store, u64 place) {
    const u64 block = place / format::block_size;
    const u64 in_frame = block % format::blocks_per_frame;
    const u64 bit = u64{1} << in_frame % 64;
    FrameOverlay& overlay = store.overlays[block / format::blocks_per_frame];
    // Acquire: pairs with the release in give_back_bits(): makes visible what its last user did
    // with the block.
    const u64 before =
        device_atomic<u64>(overlay.reserved[in_frame / 64]).fetch_or(bit, hd::memory_order_acquire);
    return (before & bit) == 0;
}

/// The bits of word `w` that a run of blocks [first, first + count) of one frame covers.
WARREN_HD inline u64 run_mask(u32 w, u32 first, u32 count) {
    const u32 begin = w * 64;
    const u32 from = first > begin ? first - begin : 0;
    const u32 to = first + count < begin + 64 ? first + count - begin : 64;
    if (first >= begin + 64 || first + count <= begin) return 0;
    return (to - from == 64 ? ~u64{0} : ((u64{1} << (to - from)) - 1) << from);
}

/// Calls `action(frame, word, mask)` for each bitmap word of a run of blocks.
template <class Action>
WARREN_HD void for_each_word(u64 place, u64 blocks, Action&& action) {
    u64 block = place / format::block_size;
    while (blocks > 0) {
        const u64 frame = block / format::blocks_per_frame;
        const u32 first = static_cast<u32>(block % format::blocks_per_frame);
        const u32 in_frame = format::blocks_per_frame - first;
        const u32 count = blocks < in_frame ? static_cast<u32>(blocks) : in_frame;
        for (u32 w = first / 64; w <= (first + count - 1) / 64; ++w) {
            action(frame, w, run_mask(w, first, count));
        }
        block += count;
        blocks -= count;
    }
}

/// Gives reserved blocks back, whether they were taken into use or not.
WARREN_HD inline void unreserve(const Store& store, u64 place, u64 blocks) {
    for_each_word(place, blocks,
                  [&](u64 frame, u32 w, u64 mask) { give_back_bits(store, frame, w, mask); });
}

}  // namespace warren::core
