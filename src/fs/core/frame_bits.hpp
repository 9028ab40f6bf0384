// SPDX-License-Identifier: Apache-2.0
// Bits of frames: finding, setting and clearing them, and the rule that says which blocks are free.
// Each function is called by one lane.
#pragma once

#include "fs/core/store.hpp"
#include "team/team.hpp"

namespace warren::core {

/// Sets or clears bit `index` of a shared bitmap; true if the bit changed.
WARREN_HD inline bool set_bit(u64* words, u64 index) {
    const u64 bit = u64{1} << index % 64;
    device_atomic<u64> word(words[index / 64]);
    if ((word.load(hd::memory_order_relaxed) & bit) != 0) return false;
    return (word.fetch_or(bit, hd::memory_order_relaxed) & bit) == 0;
}
/// Sets `bits` of word `index`; returns those that were not set.
WARREN_HD inline u64 set_bits(u64* words, u64 index, u64 bits) {
    return bits & ~device_atomic<u64>(words[index]).fetch_or(bits, hd::memory_order_relaxed);
}
WARREN_HD inline bool clear_bit(u64* words, u64 index) {
    const u64 bit = u64{1} << index % 64;
    device_atomic<u64> word(words[index / 64]);
    if ((word.load(hd::memory_order_relaxed) & bit) == 0) return false;
    return (word.fetch_and(~bit, hd::memory_order_relaxed) & bit) != 0;
}
/// Sets bit `index`, even if it seems to be set: a thread that then acquires the word sees what the
/// caller has written before.
WARREN_HD inline void release_bit(u64* words, u64 index) {
    device_atomic<u64>(words[index / 64]).fetch_or(u64{1} << index % 64, hd::memory_order_release);
}
WARREN_HD inline bool test_bit(const u64* words, u64 index) {
    return (relaxed_load(words[index / 64]) >> index % 64 & 1) != 0;
}

/// Makes the filled blocks of the bits `blocks` of word `word` resident in a fully resident store.
WARREN_HD inline void make_word_resident(const Store& store, u64 word, u64 blocks) {
    // Release: pairs with the acquire in is_resident().
    device_atomic<u64>(store.resident[word]).fetch_or(blocks, hd::memory_order_release);
}
/// As above for the block at `place`.
WARREN_HD inline void make_resident(const Store& store, u64 place) {
    const u64 block = place / format::block_size;
    make_word_resident(store, block / 64, u64{1} << block % 64);
}
/// Whether the block at `place` is resident in a fully resident store; then the caller also sees
/// its contents.
WARREN_HD inline bool is_resident(const Store& store, u64 place) {
    const u64 block = place / format::block_size;
    // Acquire: pairs with the release in make_resident().
    const u64 bits = device_atomic<u64>(store.resident[block / 64]).load(hd::memory_order_acquire);
    return (bits >> block % 64 & 1) != 0;
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

/// Whether any of a frame's bits is set. `words` are those of its blocks.
WARREN_HD inline bool has_bit(const u64* words) {
    return find_bit_up(words, 0, format::blocks_per_frame) < format::blocks_per_frame;
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

/// The free-space hints of the frames of `kind`: a bitmap with a bit set for each frame that may
/// have room.
WARREN_HD inline u64* space_hints(const Store& store, format::FrameKind kind) {
    return store.frames_with_space[static_cast<u32>(kind)];
}

/// The first frame of `kind` from `begin` on that may have room; store.frame_count if there is
/// none.
WARREN_HD inline u64 find_space(const Store& store, format::FrameKind kind, u64 begin) {
    // publish_frame() moves the bounds of a kind before it sets the first hint beyond them.
    const bool is_data = kind == format::FrameKind::data;
    const u64 low = is_data ? relaxed_load(store.state->data_frames_begin) : 0;
    const u64 end = is_data ? store.frame_count : relaxed_load(store.state->metadata_frames_end);
    const u64 frame = find_bit_up(space_hints(store, kind), begin > low ? begin : low, end);
    return frame < end ? frame : store.frame_count;
}

// A thread that frees blocks or inodes does not set the frame's free-space hint if the hint is set
// already. On a GPU another thread may clear the hint at that moment without seeing the freed bits;
// the hint is set again by the next commit that contains a change of the frame's bits.

/// Sets the free-space hint of `frame`, even if it seems to be set, so that searches for blocks or
/// inodes include the frame. One lane.
WARREN_HD inline void set_space_hint(const Store& store, format::FrameKind kind, u64 frame) {
    // Pairs with the acquire in clear_space_hint(), so that a thread that clears the hint sees the
    // freed bits.
    release_bit(space_hints(store, kind), frame);
}

/// Clears the free-space hint, so that searches skip the frame. The caller then checks the frame
/// once more, and sets the hint again if something is free. One lane.
WARREN_HD inline void clear_space_hint(const Store& store, format::FrameKind kind, u64 frame) {
    // Acquire: pairs with the release in set_space_hint().
    device_atomic<u64>(space_hints(store, kind)[frame / 64])
        .fetch_and(~(u64{1} << frame % 64), hd::memory_order_acquire);
}

/// The blocks of word `w` of `frame` that are neither in use nor committed nor reserved.
WARREN_HD inline u64 free_bits(const Store& store, u64 frame, u32 w) {
    return ~(relaxed_load(store.frame(frame).used[w]) |
             relaxed_load(store.overlays[frame].committed[w]) |
             relaxed_load(store.overlays[frame].reserved[w]));
}

/// Releases reserved bits of one word, whether the blocks were taken into use or not. Sets the
/// hint, because a worker that searched meanwhile may have found the frame full.
WARREN_HD inline void give_back_bits(const Store& store, u64 frame, u32 w, u64 bits) {
    // Release: pairs with the acquire in reserve_bits().
    device_atomic<u64>(store.overlays[frame].reserved[w])
        .fetch_and(~bits, hd::memory_order_release);
    set_bit(space_hints(store, kind_of(store, frame)), frame);
}

/// Tries to reserve the bits of `wanted` in word `w`; returns those that it has reserved.
WARREN_HD inline u64 reserve_bits(const Store& store, u64 frame, u32 w, u64 wanted) {
    device_atomic<u64> reserved(store.overlays[frame].reserved[w]);
    // Acquire: pairs with the release in give_back_bits(), so that what the previous holder of the
    // bit wrote is visible.
    const u64 won = wanted & ~reserved.fetch_or(wanted, hd::memory_order_acquire);
    const u64 lost = won & (relaxed_load(store.frame(frame).used[w]) |
                            relaxed_load(store.overlays[frame].committed[w]));
    if (lost != 0) give_back_bits(store, frame, w, lost);
    return won & ~lost;
}

/// Reserves the block at `place` whether it is in use or not: it cannot be allocated until
/// unreserve(). False if it is already reserved. One lane.
WARREN_HD inline bool reserve_as_it_is(const Store& store, u64 place) {
    const u64 block = place / format::block_size;
    const u64 in_frame = block % format::blocks_per_frame;
    const u64 bit = u64{1} << in_frame % 64;
    FrameOverlay& overlay = store.overlays[block / format::blocks_per_frame];
    // Acquire: pairs with the release in give_back_bits(), so that what the previous holder of the
    // bit did with the block is visible.
    const u64 before =
        device_atomic<u64>(overlay.reserved[in_frame / 64]).fetch_or(bit, hd::memory_order_acquire);
    return (before & bit) == 0;
}

/// The bits of word `w` that belong to the blocks [first, first + count) of one frame.
WARREN_HD inline u64 run_mask(u32 w, u32 first, u32 count) {
    const u32 begin = w * 64;
    const u32 from = first > begin ? first - begin : 0;
    const u32 to = first + count < begin + 64 ? first + count - begin : 64;
    if (first >= begin + 64 || first + count <= begin) return 0;
    return (to - from == 64 ? ~u64{0} : ((u64{1} << (to - from)) - 1) << from);
}

/// How many of `blocks` blocks from `place` on lie in the same frame.
WARREN_HD constexpr u64 blocks_in_frame(u64 place, u64 blocks) {
    const u64 room =
        format::blocks_per_frame - place / format::block_size % format::blocks_per_frame;
    return blocks < room ? blocks : room;
}

/// Calls `action(frame, first, count)` for the part of a run of blocks that lies in each frame.
template <class Action>
WARREN_HD void for_each_frame_part(u64 place, u64 blocks, Action&& action) {
    while (blocks > 0) {
        const u32 count = static_cast<u32>(blocks_in_frame(place, blocks));
        const u64 block = place / format::block_size;
        action(block / format::blocks_per_frame, static_cast<u32>(block % format::blocks_per_frame),
               count);
        place += count * format::block_size;
        blocks -= count;
    }
}

/// Calls `action(frame, word, mask)` for each bitmap word that a run of blocks touches.
template <class Action>
WARREN_HD void for_each_word(u64 place, u64 blocks, Action&& action) {
    for_each_frame_part(place, blocks, [&](u64 frame, u32 first, u32 count) {
        for (u32 w = first / 64; w <= (first + count - 1) / 64; ++w)
            action(frame, w, run_mask(w, first, count));
    });
}

/// Contiguous blocks.
struct Run {
    u64 place;
    u32 blocks;
};

/// Releases reserved blocks, whether they were taken into use or not.
WARREN_HD inline void unreserve(const Store& store, u64 place, u64 blocks) {
    for_each_word(place, blocks,
                  [&](u64 frame, u32 w, u64 mask) { give_back_bits(store, frame, w, mask); });
}

}  // namespace warren::core
