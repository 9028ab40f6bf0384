// SPDX-License-Identifier: Apache-2.0
// Allocation of blocks. Planning reserves blocks in the volatile overlay, which does not change the
// volume; apply turns a reservation into use, or frees blocks that were in use. Metadata frames are
// taken from the start of the volume and data frames from its end, so that metadata stay dense.
//
// Invariant: a block is reserved only if it is free in the frame table, in the last durable commit,
// in a commit that is being written and in all reservations, and only while its frame has the kind
// that the caller asked for.
#pragma once

#include "fs/core/frame_bits.hpp"
#include "fs/core/operation.hpp"

namespace warren::core {

using format::FrameKind;

/// How many bytes of the volume one block of the frame table describes.
inline constexpr u64 table_span_bytes = format::frames_per_table_block * format::frame_size;

/// Reserves the free blocks of word `w` from bit `from` up to the first one that is taken, at most
/// `want`. Returns how many; none if the frame is not of kind `kind`. One lane.
WARREN_HD inline u32 reserve_in_word(const Store& store, u64 frame, FrameKind kind, u32 w, u32 from,
                                     u32 want) {
    const u64 run = free_bits(store, frame, w) >> from;
    u32 length = run == ~u64{0} ? 64 : static_cast<u32>(hd::countr_one(run));
    if (length > want) length = want;
    if (length == 0) return 0;
    const u64 won = reserve_bits(store, frame, w, run_mask(w, w * 64 + from, length));
    if (won != 0 && kind_of(store, frame) != kind) {
        give_back_bits(store, frame, w, won);
        return 0;
    }
    const u32 prefix = static_cast<u32>(hd::countr_one(won >> from));
    const u64 keep = won & run_mask(w, w * 64 + from, prefix);
    if (won != keep) give_back_bits(store, frame, w, won & ~keep);
    return prefix;
}

/// Reserves up to `want` contiguous blocks of `frame` at or after block `first`, sets `first` to
/// the first of them and returns how many. None if the frame is not of kind `kind`; its kind cannot
/// change once a bit is reserved. One lane.
WARREN_HD inline u32 reserve_in_frame(const Store& store, u64 frame, FrameKind kind, u32& first,
                                      u32 want) {
    for (u32 w = first / 64; w < 8; ++w) {
        u64 free = free_bits(store, frame, w);
        if (w == first / 64) free &= ~u64{0} << first % 64;
        if (free == 0) continue;
        const u32 from = static_cast<u32>(hd::countr_zero(free));
        u32 count = reserve_in_word(store, frame, kind, w, from, want);
        if (count == 0) {
            if (kind_of(store, frame) != kind) return 0;
            --w;  // other workers reserved these blocks first: try this word again
            continue;
        }
        first = w * 64 + from;
        for (u32 next = w + 1; next < 8 && first + count == next * 64 && count < want; ++next) {
            count += reserve_in_word(store, frame, kind, next, 0, want - count);
        }
        return count;
    }
    return 0;
}

inline constexpr u32 data_window_frames = 32;

/// Whether metadata may lie in `frame`: of a large volume, an engine backs only some frames with
/// memory.
WARREN_HD inline bool has_memory(const Store& store, u64 frame) {
    const u64 end = relaxed_load(store.state->frames_with_memory);
    return end == 0 || frame < end;
}

/// Takes up to `wanted` off the count of free frames, but leaves at least `kept`; returns how many
/// it took. A caller that has taken one off will find a free frame: a frame is counted after its
/// bit is set, and taken off the count before its bit is cleared. One lane.
WARREN_HD inline u64 count_frames_off(const Store& store, u64 wanted, u64 kept) {
    device_atomic<u64> count(store.state->free_frames);
    u64 old = count.load(hd::memory_order_relaxed);
    while (old > kept) {
        const u64 taken = wanted < old - kept ? wanted : old - kept;
        // Acquire: pairs with the release in count_free_frames().
        if (count.compare_exchange_weak(old, old - taken, hd::memory_order_acquire,
                                        hd::memory_order_relaxed)) {
            return taken;
        }
    }
    return 0;
}

/// Adds frames to the count of free frames: their bits are set, or the caller took them off the
/// count and did not claim them. One lane.
WARREN_HD inline void count_free_frames(const Store& store, u64 frames) {
    // Release: pairs with the acquire in count_frames_off(), which makes the bits visible.
    device_atomic<u64>(store.state->free_frames).fetch_add(frames, hd::memory_order_release);
}

/// How many free frames an allocation for `kind` must leave: the last one is kept for metadata, so
/// that a volume full of data can still be emptied.
WARREN_HD constexpr u64 frames_kept_from(FrameKind kind) {
    return kind == FrameKind::data ? 1 : 0;
}

/// Claims a free frame for `kind`: no other worker will find it. Errc::need_space if there is none,
/// Errc::need_frame if the only free frames for metadata or inodes are ones without memory. The
/// caller then calls publish_frame() or unclaim_frame(). One lane.
WARREN_HD inline Result<u64> claim_frame(const Store& store, FrameKind kind) {
    constexpr u32 looks_max = 2;  // other workers may claim and free frames during the search
    const bool is_data = kind == FrameKind::data;
    const u64 end = store.frame_count;
    if (count_frames_off(store, 1, frames_kept_from(kind)) == 0) return Errc::need_space;
    for (u32 looks = 0;;) {
        u64 frame = is_data ? find_bit_down(store.frames_free, 0, end)
                            : find_bit_up(store.frames_free, 0, end);
        if (frame == end && ++looks < looks_max) continue;
        if (frame == end || (!is_data && !has_memory(store, frame))) {
            count_free_frames(store, 1);
            return frame == end ? Errc::need_space : Errc::need_frame;
        }
        // Take the lowest of up to data_window_frames adjacent free frames, so that a file that
        // grows finds the next frame free.
        for (u32 i = 1; is_data && i < data_window_frames && frame > 0; ++i) {
            if (!test_bit(store.frames_free, frame - 1)) break;
            --frame;
        }
        if (clear_bit(store.frames_free, frame)) return frame;
    }
}

/// Claims exactly this frame for data, if it is free. One lane.
WARREN_HD inline bool claim_data_frame_at(const Store& store, u64 frame) {
    if (!test_bit(store.frames_free, frame)) return false;
    if (count_frames_off(store, 1, frames_kept_from(FrameKind::data)) == 0) return false;
    if (clear_bit(store.frames_free, frame)) return true;
    count_free_frames(store, 1);
    return false;
}

WARREN_HD inline void unclaim_frame(const Store& store, u64 frame) {
    set_bit(store.frames_free, frame);
    count_free_frames(store, 1);
}

/// Gives a claimed frame its kind. From then on its blocks or inodes can be allocated. One lane.
WARREN_HD inline void publish_frame(const Store& store, u64 frame, FrameKind kind) {
    const bool is_data = kind == FrameKind::data;
    StoreState& state = *store.state;
    // The bound moves first: a commit between the two stores must not leave a frame that has a kind
    // outside of the bounds.
    device_atomic<u64> mark(is_data ? state.data_frames_begin : state.metadata_frames_end);
    u64 old = mark.load(hd::memory_order_relaxed);
    const u64 bound = is_data ? frame : frame + 1;
    while ((is_data ? old > bound : old < bound) &&
           !mark.compare_exchange_weak(old, bound, hd::memory_order_relaxed)) {
    }
    // Release: orders the bound, and what the caller wrote into the frame, before the kind.
    device_atomic<u64>(store.frame(frame).kind)
        .store(static_cast<u64>(kind), hd::memory_order_release);
    set_bit(space_hints(store, kind), frame);
}

/// Makes an empty frame free: none of its blocks is in use, committed or reserved. Returns false if
/// it is not empty. One lane; called between commits.
WARREN_HD inline bool release_frame(const Store& store, u64 frame) {
    FrameOverlay& overlay = store.overlays[frame];
    u32 taken = 0;
    for (; taken < 8; ++taken) {
        u64 expected = 0;
        // Acquire: pairs with the release in give_back_bits().
        if (!device_atomic<u64>(overlay.reserved[taken])
                 .compare_exchange_strong(expected, ~u64{0}, hd::memory_order_acquire,
                                          hd::memory_order_relaxed)) {
            break;
        }
    }
    bool empty = taken == 8;
    for (u32 w = 0; w < 8 && empty; ++w) {
        empty = relaxed_load(store.frame(frame).used[w]) == 0 &&
                relaxed_load(overlay.committed[w]) == 0;
    }
    if (empty) {
        const FrameKind kind = kind_of(store, frame);
        clear_bit(space_hints(store, kind), frame);
        relaxed_store(store.frame(frame).kind, static_cast<u64>(FrameKind::free));
    }
    for (u32 w = 0; w < taken; ++w) {
        // Release: pairs with the acquire in reserve_bits().
        device_atomic<u64>(overlay.reserved[w]).store(0, hd::memory_order_release);
    }
    if (empty) {
        unclaim_frame(store, frame);
    } else if (taken > 0) {
        // A worker that searched meanwhile saw all blocks reserved and may have cleared the
        // free-space hint.
        set_bit(space_hints(store, kind_of(store, frame)), frame);
    }
    return empty;
}

/// A metadata frame that may have room; a new one if there is none. If several workers find no
/// room, one of them adds a frame for all; the others get Errc::retry. One lane.
WARREN_HD inline Result<u64> add_metadata_frame(const Store& store) {
    device_atomic<u32> claims(store.state->claims_metadata);
    // Acquire: pairs with the release below, so that a frame that another worker has added is
    // visible.
    if (claims.exchange(1, hd::memory_order_acquire) != 0) return Errc::retry;
    Result<u64> frame = find_space(store, FrameKind::metadata, 0);
    if (*frame == store.frame_count) {
        frame = claim_frame(store, FrameKind::metadata);
        if (frame) publish_frame(store, *frame, FrameKind::metadata);
    }
    claims.store(0, hd::memory_order_release);
    return frame;
}

/// Takes a frame without free blocks out of the search for blocks. One lane.
WARREN_HD inline void drop_full_frame(const Store& store, u64 frame, FrameKind kind) {
    clear_space_hint(store, kind, frame);
    // give_back_bits() in another thread may have freed blocks just before the hint was cleared.
    for (u32 w = 0; w < 8 && kind_of(store, frame) == kind; ++w) {
        if (free_bits(store, frame, w) == 0) continue;
        set_bit(space_hints(store, kind), frame);
        return;
    }
}

/// Reserves up to `want` contiguous blocks of `kind`, near `goal` (a place; 0: anywhere).
/// Errc::need_space if no block is free. One lane.
WARREN_HD inline Result<Run> reserve_run(const Store& store, u32 worker, FrameKind kind, u64 goal,
                                         u32 want) {
    WorkerHint& hint = store.state->hints[worker % barrier_slots];
    u64& hinted = kind == FrameKind::data ? hint.data_frame : hint.metadata_frame;
    if (goal != 0 && goal < store.size_bytes) {
        const u64 frame = goal / format::frame_size;
        u32 first = static_cast<u32>(goal / format::block_size % format::blocks_per_frame);
        if (kind == FrameKind::data && claim_data_frame_at(store, frame)) {
            publish_frame(store, frame, kind);
        }
        if (kind_of(store, frame) == kind) {
            const u32 count = reserve_in_frame(store, frame, kind, first, want);
            if (count > 0)
                return Run{frame * format::frame_size + first * format::block_size, count};
        }
    }
    u64* room = space_hints(store, kind);
    u64 frame = relaxed_load(hinted);
    if (frame >= store.frame_count || kind_of(store, frame) != kind) frame = 0;
    bool wrapped = frame == 0;
    for (;;) {
        u32 first = 0;
        if (kind_of(store, frame) == kind && test_bit(room, frame)) {
            const u32 count = reserve_in_frame(store, frame, kind, first, want);
            if (count > 0) {
                relaxed_store(hinted, frame);
                return Run{frame * format::frame_size + first * format::block_size, count};
            }
            drop_full_frame(store, frame, kind);
        }
        frame = find_space(store, kind, frame + 1 < store.frame_count ? frame + 1 : 0);
        if (frame < store.frame_count) continue;
        if (!wrapped) {
            wrapped = true;
            frame = find_space(store, kind, 0);
            if (frame < store.frame_count) continue;
        }
        WARREN_LET(taken, kind == FrameKind::metadata ? add_metadata_frame(store)
                                                      : claim_frame(store, kind));
        frame = *taken;
        if (kind != FrameKind::metadata) publish_frame(store, frame, kind);
    }
}

/// Errc::need_space unless `blocks` more may be taken; the last blocks are kept for removals and
/// commits.
template <class Team>
WARREN_HD Errc check_space(Operation<Team>& op, u64 blocks) {
    const u64 used = load(op.team, op.store.state->blocks_used);
    const u64 reserve = op.may_use_reserve ? 0 : op.store.reserve_blocks;
    return used + blocks + reserve > op.store.block_count() ? Errc::need_space : Errc::ok;
}

/// Reserves up to `want` contiguous blocks in a frame of `kind` for apply, data near `goal`.
/// Collective.
template <class Team>
WARREN_HD Result<Run> reserve_blocks(Operation<Team>& op, FrameKind kind, u64 goal, u32 want) {
    WARREN_TRY(check_space(op, want));
    const Result<Run> run =
        once(op.team, [&] { return reserve_run(op.store, op.team.worker, kind, goal, want); });
    if (run) op.add_reservation(*run);
    return run;
}

/// Marks dirty the blocks of the frame table that describe these blocks.
template <class Team>
WARREN_HD void mark_tables(Operation<Team>& op, u64 place, u64 blocks) {
    for (u64 at = place; at < place + blocks * format::block_size;
         at = (at / format::frame_size + 1) * format::frame_size) {
        op.mark_dirty(op.store.table_place(at / format::frame_size));
    }
}

/// Takes reserved blocks into use. Only within apply.
template <class Team>
WARREN_HD void use_blocks(Operation<Team>& op, u64 place, u32 blocks) {
    once(op.team, [&] {
        for_each_word(place, blocks, [&](u64 frame, u32 w, u64 mask) {
            device_atomic<u64>(op.store.frame(frame).used[w])
                .fetch_or(mask, hd::memory_order_relaxed);
        });
        device_atomic<u64>(op.store.state->blocks_used).fetch_add(blocks, hd::memory_order_relaxed);
    });
    mark_tables(op, place, blocks);
}

/// The part of end_use() in one word of a frame, without the mark of the frame table. One lane.
WARREN_HD inline void end_use_in_word(const Store& store, u64 frame, u32 w, u64 mask) {
    device_atomic<u64>(store.frame(frame).used[w]).fetch_and(~mask, hd::memory_order_relaxed);
    set_bit(space_hints(store, kind_of(store, frame)), frame);
}

/// Ends the use of blocks; they can be reused once the commit that contains this change is durable.
/// The caller updates blocks_used. Only within apply.
template <class Team>
WARREN_HD void end_use(Operation<Team>& op, u64 place, u64 blocks) {
    once(op.team, [&] {
        for_each_word(place, blocks, [&](u64 frame, u32 w, u64 mask) {
            end_use_in_word(op.store, frame, w, mask);
        });
    });
    mark_tables(op, place, blocks);
}

/// Takes blocks whose use has ended off blocks_used.
template <class Team>
WARREN_HD void count_freed(Operation<Team>& op, u64 blocks) {
    once(op.team, [&] {
        device_atomic<u64>(op.store.state->blocks_used).fetch_sub(blocks, hd::memory_order_relaxed);
    });
}

/// Frees blocks that were in use. Only within apply.
template <class Team>
WARREN_HD void free_blocks(Operation<Team>& op, u64 place, u64 blocks) {
    end_use(op, place, blocks);
    count_freed(op, blocks);
}

/// Frees one metadata block and takes it out of the next commit. Only within apply.
template <class Team>
WARREN_HD void free_metadata(Operation<Team>& op, u64 place) {
    op.clear_dirty(place);
    free_blocks(op, place, 1);
}

}  // namespace warren::core
