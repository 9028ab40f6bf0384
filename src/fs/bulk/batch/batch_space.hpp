// SPDX-License-Identifier: Apache-2.0
// Space for a batch: numbers for new inodes, blocks for new trees, journal credits.
//
// Invariant: a run that fails here has returned what it reserved.
#pragma once

#include "fs/bulk/batch/batch_trees.hpp"
#include "fs/ops/inode_frame.hpp"

namespace warren::ops::batch {

/// Per item: its number among the new inodes.
struct NumberCreations : Phase {
    WARREN_HD void operator()(u64 item) const {
        b.rank[item] = b.sums[item];
        if (item + 1 == b.shape.items) b.state->created = b.sums[item] + b.flags[item];
    }
};

/// Once: lists the frames that may have a free inode.
struct ListInodeFrames : Phase {
    WARREN_HD void operator()(u64 /*once*/) const {
        if (has_failed() || b.state->created == 0) return;
        u64 frame = find_space(store, FrameKind::inodes, 0);
        u32 count = 0;
        while (frame < store.frame_count && count < b.frames_max) {
            b.frames[count++] = static_cast<u32>(frame);
            frame = find_space(store, FrameKind::inodes, frame + 1);
        }
        b.state->inode_frames = count;
        if (count != 0) return;
        // TakeSlots reports a lack at the last word of the listed bitmaps; here there is none.
        b.state->needed_inodes = b.state->created;
        fail(Errc::need_inodes);
    }
};

/// The free slots of word `w` of the bitmaps of the listed frames: none if the frame was listed by
/// a stale hint (drop_stale_room()).
WARREN_HD inline u64 free_slots(const Batch& b, const Store& store, u64 w) {
    const u64 frame = b.frames[w / bitmap_words];
    if (kind_of(store, frame) != FrameKind::inodes) return 0;
    const auto& bitmap = block_at<format::InodeBitmap>(store, frame * format::frame_size);
    const u32 word = static_cast<u32>(w % bitmap_words);
    return ~(relaxed_load(bitmap.used[word]) | relaxed_load(bitmap.held[word])) & inode_bits(word);
}

/// Per word of the bitmaps: counts its free inodes.
struct CountSlots : Phase {
    WARREN_HD void operator()(u64 w) const {
        b.flags[w] = 0;
        if (has_failed()) return;
        LaneOperation op(ThreadTeam{}, store);
        const Result<Block*> bitmap = op.pin(u64{b.frames[w / bitmap_words]} * format::frame_size);
        if (!bitmap) return fail(bitmap.code(), op.needed_place);
        b.flags[w] = static_cast<u32>(hd::popcount(free_slots(b, store, w)));
    }
};

/// Per word of the bitmaps: assigns its free inodes to the creations with these ranks.
struct TakeSlots : Phase {
    WARREN_HD void operator()(u64 w) const {
        if (has_failed()) return;
        const u32 created = b.state->created;
        const u64 words = u64{b.state->inode_frames} * bitmap_words;
        if (w + 1 == words && b.sums[w] + b.flags[w] < created) {
            b.state->needed_inodes = created - b.sums[w] - b.flags[w];
            if (b.state->inode_frames < b.frames_max) return fail(Errc::need_inodes);
            // There may be more frames than fit in the list.
            return fail(b.is_small ? Errc::overflow : Errc::not_supported);
        }
        const u64 frame = b.frames[w / bitmap_words];
        const u64 first = frame * format::inodes_per_frame + w % bitmap_words * 64;
        u32 rank = b.sums[w];
        u64 blocks = 0;  // bit 16 * i: the i-th inode block of this word
        for (u64 free = free_slots(b, store, w); free != 0 && rank < created; free &= free - 1) {
            const u32 bit = static_cast<u32>(hd::countr_zero(free));
            b.numbers[rank++] = first + bit;
            blocks |= u64{1} << bit / 16 * 16;
        }
        if (blocks == 0) return;
        relaxed_add(b.state->inode_blocks, static_cast<u32>(hd::popcount(blocks)));
        const u64 block = first / format::inodes_per_block;
        for (u32 i = 0; i < 4; ++i) {
            if ((blocks >> 16 * i & 1) == 0 || test_bit(store.resident, block + i)) continue;
            fail(Errc::need_block, (block + i) * format::block_size);
        }
    }
};

/// Per listed frame: clears its free-space hint if it has no free inode.
struct DropFullFrames : Phase {
    WARREN_HD void operator()(u64 f) const {
        if (has_failed()) return;
        const u64 last = (f + 1) * bitmap_words - 1;
        if (b.sums[last] + b.flags[last] != b.sums[f * bitmap_words]) return;
        clear_bit(space_hints(store, FrameKind::inodes), b.frames[f]);
    }
};

/// The counter before the generations of `created` new inodes, which are consecutive and never 0.
WARREN_HD inline u64 generation_before(const StoreState& state, u64 created) {
    constexpr u64 round = u64{1} << 32;
    const u64 before = relaxed_load(state.generation);
    return before % round + created >= round ? (before / round + 1) * round : before;
}

/// Once: checks that the journal can hold all blocks that will be dirty, and that there are enough
/// generations and space.
struct CheckRoom : Phase {
    WARREN_HD Errc check() const {
        const StoreState& state = *store.state;
        const u64 wanted = b.state->new_blocks;
        if (wanted > b.places_max) return Errc::not_supported;
        const u64 tables = store.frame_count / format::frames_per_table_block + 1;
        const u64 changed =
            wanted + b.state->blocks_end + b.state->freed_tables + b.state->fresh_counts;
        const u64 bitmaps = relaxed_load(state.inode_slots) / format::inode_slots_per_frame + 1;
        const u64 removed = b.state->removed;
        const u64 dirtied = wanted + b.state->directories + b.state->inode_blocks +
                            b.state->inode_frames + (removed < bitmaps ? removed : bitmaps) +
                            (changed < tables ? changed : tables);
        // No operation applies at the same time, so no credits need to be reserved.
        WARREN_TRY(JournalRoom::now(state).verdict(dirtied));
        const u64 created = b.state->created;
        if (generation_before(state, created) + created > relaxed_load(state.generation_limit) &&
            created > 0) {
            return Errc::need_commit;
        }
        const u64 used = relaxed_load(state.blocks_used) + wanted + store.reserve_blocks;
        return wanted > 0 && used > store.block_count() ? Errc::need_space : Errc::ok;
    }

    WARREN_HD void operator()(u64 /*once*/) const {
        const BatchState& state = *b.state;
        const bool is_idle = state.new_blocks == 0 && state.blocks_end == 0 &&
                             state.inode_blocks == 0 && state.removed == 0;
        if (has_failed() || is_idle) return;
        const Errc checked = check();
        if (checked != Errc::ok) fail(checked);
    }
};

/// Per new block: it has no address yet.
struct ClearPlaces : Phase {
    WARREN_HD void operator()(u64 k) const {
        if (k < b.state->new_blocks) b.places[k] = 0;
    }
};

/// This many threads search for space in parallel, each for its share of the blocks: a single
/// thread would wait for memory at every step. Each is the first lane of a warp of its own. Because
/// these threads contend with each other, a small number of blocks is divided into few shares.
inline constexpr u32 reserve_shares = 64;
inline constexpr u32 share_stride = 32;
inline constexpr u32 share_blocks_min = 64;

/// Per share, at indices share_stride apart: reserves the blocks of the share.
struct ReserveBlocks : Phase {
    WARREN_HD Errc reserve(u32 share, u64 begin, u64 end) const {
        constexpr u32 retries_max = 1u << 16;
        u32 retries = 0;
        while (begin < end) {
            const u64 left = end - begin;
            const u32 most =
                left < format::blocks_per_frame ? static_cast<u32>(left) : format::blocks_per_frame;
            const Result<Run> run = reserve_run(store, share, FrameKind::metadata, 0, most);
            if (run.code() == Errc::retry && ++retries < retries_max) continue;
            if (!run) return run.code();
            for (u32 i = 0; i < run->blocks; ++i)
                b.places[begin++] = run->place + i * format::block_size;
        }
        return Errc::ok;
    }

    WARREN_HD void operator()(u64 i) const {
        if (has_failed() || i % share_stride != 0) return;
        const u32 share = static_cast<u32>(i / share_stride);
        const u32 wanted = b.state->new_blocks;
        const u32 most = wanted / share_blocks_min + 1;
        const u32 shares = most < reserve_shares ? most : reserve_shares;
        if (share >= shares || wanted == 0) return;
        const u32 each = wanted / shares;
        const u32 more = wanted % shares;  // this many shares have one block more
        const u32 begin = share * each + (share < more ? share : more);
        const Errc reserved = reserve(share, begin, begin + each + (share < more ? 1 : 0));
        if (reserved != Errc::ok) fail(reserved);
    }
};

/// Per new block: returns it if the run has failed.
struct GiveBack : Phase {
    WARREN_HD void operator()(u64 k) const {
        if (!has_failed() || k >= b.state->new_blocks || b.places[k] == 0) return;
        unreserve(store, b.places[k], 1);
    }
};

}  // namespace warren::ops::batch
