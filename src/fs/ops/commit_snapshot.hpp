// SPDX-License-Identifier: Apache-2.0
// The part of a commit that runs where the metadata are. It lists the dirty blocks and copies them
// with all teams while no operation applies; once the commit is durable, it lets the allocator
// reuse what was freed. Checksums and writing come later and use the copies.
//
// Listing and copying are each shared by any number of teams; listing is over before copying
// begins. Invariant: a block is marked clean only after it was copied; if the area is too small for
// all dirty blocks, nothing changes.
#pragma once

#include "fs/core/allocator.hpp"
#include "fs/core/inode_table.hpp"
#include "fs/ops/place_block.hpp"

namespace warren::ops {

using namespace warren::core;

/// The counters of a superblock, as of the snapshot.
struct CutCounters {
    u64 blocks_used;
    u64 inodes_used;
    u64 metadata_frames_end;
    u64 data_frames_begin;
    u64 generation;
    u64 overrun_blocks;  // see StoreState
    u64 overrun_credits;
};

struct CutHeader {
    u64 count;  // number of dirty blocks; zero before list_dirty()
    CutCounters counters;
};

/// Where a snapshot is stored: block i of `blocks` is a copy of the block at places[i].
struct CutArea {
    format::Block* blocks;
    u64* places;  // in no particular order
    u64 capacity;
    CutHeader* header;
};

/// A team's share of listing or copying: parts index, index + count, index + 2 count, and so on.
/// For copying, a part is `part` blocks: one if the lanes of a team copy a block together; more if
/// teams are threads, so that they do not share cache lines.
struct CutShare {
    u64 index = 0;
    u64 count = 1;
    u64 part = 1;
};

/// The size of the frame table in bytes. The table is contiguous on disk and an array in memory.
WARREN_HD inline u64 table_bytes(const Store& store) {
    return format::table_blocks_for(store.frame_count) * format::block_size;
}

WARREN_HD inline bool is_table_place(const Store& store, u64 place) {
    return place - store.frame_table_offset < table_bytes(store);
}

/// A number of frames below which all dirty blocks lie.
WARREN_HD inline u64 dirty_frames_end(const Store& store) {
    const u64 table_end = store.frame_table_offset + table_bytes(store);
    const u64 table_frames = (table_end + format::frame_size - 1) / format::frame_size;
    const u64 frames = relaxed_load(store.state->metadata_frames_end);
    return frames > table_frames ? frames : table_frames;
}

/// Writes the places of the dirty blocks into the area and counts them. Each lane reads words of
/// its own.
template <class Team>
WARREN_HD void list_dirty(const Team& team, const Store& store, const CutArea& area,
                          CutShare share) {
    const u64 words = dirty_frames_end(store) * format::words_per_frame;
    const u64 step = share.count * Team::width;
    for (u64 w = share.index * Team::width + team.lane(); w < words; w += step) {
        if (!test_bit(store.dirty_frames, w / format::words_per_frame)) continue;
        u64 bits = relaxed_load(store.dirty[w]);
        if (bits == 0) continue;
        u64 at = device_atomic<u64>(area.header->count)
                     .fetch_add(static_cast<u64>(hd::popcount(bits)), hd::memory_order_relaxed);
        for (; bits != 0 && at < area.capacity; bits &= bits - 1) {
            const u64 block = w * 64 + static_cast<u64>(hd::countr_zero(bits));
            area.places[at++] = block * format::block_size;
        }
    }
    team.sync();
}

/// Marks the blocks that a snapshot of the frame table shows in use as committed, although the
/// commit is not durable yet. If such a block is freed meanwhile, it must not be reused before the
/// commit that contains the free is durable.
template <class Team>
WARREN_HD void keep_from_reuse(const Team& team, const Store& store, u64 place,
                               const format::Block& copy) {
    const auto& table = reinterpret_cast<const format::FrameTableBlock&>(copy);
    const u64 first =
        (place - store.frame_table_offset) / format::block_size * format::frames_per_table_block;
    for (u32 i = team.lane(); i < format::frames_per_table_block * 8; i += Team::width) {
        if (first + i / 8 >= store.frame_count) break;
        const u64 used = table.entries[i / 8].used[i % 8];
        device_atomic<u64>(store.overlays[first + i / 8].committed[i % 8])
            .fetch_or(used, hd::memory_order_relaxed);
    }
}

/// If the block at `place` is the bitmap of an inode frame and has a free inode, sets the frame's
/// free-space hint: an earlier hint may have been lost (core/frame_bits.hpp).
template <class Team>
WARREN_HD void mark_free_inodes(const Team& team, const Store& store, u64 place,
                                const format::Block& copy) {
    const u64 frame = place / format::frame_size;
    if (load(team, store.frame(frame).kind) != static_cast<u64>(FrameKind::inodes)) return;
    if (!has_free_slot(team, reinterpret_cast<const format::InodeBitmap&>(copy))) return;
    once(team, [&] { set_space_hint(store, FrameKind::inodes, frame); });
}

/// Ends a snapshot: records the counters and resets those of dirty blocks. One team runs this.
template <class Team>
WARREN_HD void end_cut(const Team& team, const Store& store, CutHeader& header) {
    once(team, [&] {
        StoreState& state = *store.state;
        header.counters = {
            relaxed_load(state.blocks_used),         relaxed_load(state.inodes_used),
            relaxed_load(state.metadata_frames_end), relaxed_load(state.data_frames_begin),
            relaxed_load(state.generation),          relaxed_load(state.overrun_blocks),
            relaxed_load(state.overrun_credits)};
        relaxed_store(state.dirty_blocks, 0);
    });
    const u64 words = dirty_frames_end(store) / 64 + 1;
    for (u64 w = team.lane(); w < words; w += Team::width)
        relaxed_store(store.dirty_frames[w], 0);
    team.sync();
}

/// The memory of a dirty block, which is always resident.
template <class Team>
WARREN_HD const format::Block* dirty_block(const Team& team, const Store& store, u64 place) {
    if (store.heads != nullptr) return hold_block(team, store, place);
    return reinterpret_cast<const format::Block*>(store.base + place);
}

/// Copies the block that is listed at `i` into the area and marks it clean.
template <class Team, class Copy>
WARREN_HD void gather_block(const Team& team, const Store& store, const CutArea& area, u64 i,
                            const Copy& copy) {
    const u64 place = load(team, area.places[i]);
    const bool is_table = is_table_place(store, place);
    const u64 index = (place - store.frame_table_offset) / format::block_size;
    const format::Block* from =
        is_table ? reinterpret_cast<const format::Block*>(&store.frame_table[index])
                 : dirty_block(team, store, place);
    copy(team, *from, area.blocks[i]);
    team.sync();
    if (is_table) keep_from_reuse(team, store, place, area.blocks[i]);
    if (place % format::frame_size == 0) mark_free_inodes(team, store, place, area.blocks[i]);
    // Comes last, because a clean block may be evicted at any moment.
    once(team, [&] { clear_bit(store.dirty, place / format::block_size); });
}

/// Copies the listed blocks into the area and marks them clean; does nothing if the area is too
/// small for them. `copy(team, from, to)` copies one block. A buffer cache keeps the blocks until
/// release_cut(). Requires: no operation applies.
template <class Team, class Copy>
WARREN_HD void gather_dirty(const Team& team, const Store& store, const CutArea& area,
                            CutShare share, const Copy& copy) {
    const u64 count = load(team, area.header->count);
    if (count > area.capacity) return;
    const u64 step = share.count * share.part;
    for (u64 begin = share.index * share.part; begin < count; begin += step) {
        const u64 end = count - begin < share.part ? count : begin + share.part;
        for (u64 i = begin; i < end; ++i)
            gather_block(team, store, area, i, copy);
    }
    if (share.index == 0) end_cut(team, store, *area.header);
}

/// Lets a buffer cache evict the blocks of a snapshot, which are at their home locations on disk
/// now.
template <class Team>
WARREN_HD void release_cut(const Team& team, const Store& store, const u64* places, u64 count,
                           CutShare share) {
    if (store.heads == nullptr) return;
    for (u64 i = share.index; i < count; i += share.count) {
        const u64 place = load(team, const_cast<u64&>(places[i]));
        if (!is_table_place(store, place)) let_go_block(team, store, place);
    }
}

/// A frame in which a durable commit has freed something, and its state in that commit.
struct CommittedFrame {
    u64 frame;
    FrameKind kind;
    u64 used[8];
    u64 was_released;  // out: this call has made the frame free
};

/// Lets the allocator reuse what a durable commit has freed in a frame. A frame that becomes free
/// here is not marked dirty: on disk none of its blocks is in use, and opening a volume treats such
/// a frame as free. Requires: the disk has discarded the blocks; no commit takes its snapshot
/// meanwhile.
template <class Team>
WARREN_HD void publish_committed(const Team& team, const Store& store, CommittedFrame& what) {
    once(team, [&] {
        FrameOverlay& overlay = store.overlays[what.frame];
        u64 any = 0;
        for (u32 w = 0; w < 8; ++w) {
            any |= what.used[w];
            // Release: the discard precedes any reuse of the blocks.
            device_atomic<u64>(overlay.committed[w]).store(what.used[w], hd::memory_order_release);
        }
        what.was_released = 0;
        if (what.kind == FrameKind::free) {
            unclaim_frame(store, what.frame);
            return;
        }
        set_space_hint(store, what.kind, what.frame);
        if (any == 0 && release_frame(store, what.frame)) what.was_released = 1;
    });
}

}  // namespace warren::ops
