// SPDX-License-Identifier: Apache-2.0
// The room that a run of a bulk template finds in the image of a replica: blocks that the host has
// reserved for it, and numbers of inodes that the host holds for it. All else seems to be taken, so
// what the run allocates is free for the host, too. A run that gets numbers removes no inodes:
// where it is offered some, those in use seem to be held.
#pragma once

#include <algorithm>
#include <span>

#include "fs/core/allocator.hpp"
#include "fs/core/inode_table.hpp"

namespace warren {

/// Free numbers of inodes in one frame, as bits of its bitmap.
struct FreeNumbers {
    u64 frame;
    u64 slots[core::bitmap_words];
    /// Bits of the frame's blocks that hold no inode and are not in memory on the host, which
    /// reserves them. All their numbers are among these.
    u64 new_blocks[format::words_per_frame];

    bool is_any() const {
        return !std::ranges::all_of(slots, [](u64 word) { return word == 0; });
    }
    WARREN_HD bool is_new(u64 block) const {
        return (new_blocks[block / 64] >> block % 64 & 1) != 0;
    }
};

struct RunRoom {
    std::span<const core::Run> blocks;  // for metadata; each run lies in one frame
    std::span<const FreeNumbers> numbers;
    /// The counters that the run starts from. No frame is free there.
    core::StoreState state;
    u64 reserve_blocks;  // see Store
};

/// Before the blocks of the run are offered: all blocks of its frame seem to be reserved. One lane.
WARREN_HD inline void shut_frame_of(const core::Store& image, const core::Run& run) {
    const u64 frame = run.place / format::frame_size;
    core::FrameOverlay& overlay = image.overlays[frame];
    for (u32 w = 0; w < 8; ++w) {
        relaxed_store(overlay.committed[w], u64{0});
        relaxed_store(overlay.reserved[w], ~u64{0});
    }
    core::set_bit(core::space_hints(image, format::FrameKind::metadata), frame);
}

/// Offers the blocks of the run. One lane.
WARREN_HD inline void offer_blocks(const core::Store& image, const core::Run& run) {
    core::for_each_word(run.place, run.blocks, [&](u64 frame, u32 w, u64 mask) {
        device_atomic<u64>(image.overlays[frame].reserved[w])
            .fetch_and(~mask, hd::memory_order_relaxed);
    });
}

/// Sets which numbers of word `w` of a frame seem to be held, if the frame has inodes: what the
/// image has of the host's holds is out of date. One lane.
WARREN_HD inline void hold_numbers(const core::Store& image, u64 frame, u32 w, u64 held) {
    const u64 place = frame * format::frame_size;
    const bool has_inodes = core::kind_of(image, frame) == format::FrameKind::inodes;
    if (!has_inodes || !core::is_resident(image, place)) return;
    auto& bitmap = *reinterpret_cast<format::InodeBitmap*>(image.base + place);
    relaxed_store(bitmap.held[w], held);
}

/// Offers the numbers of word `w`; all others of the word seem to be held. One lane.
WARREN_HD inline void offer_numbers(const core::Store& image, const FreeNumbers& numbers, u32 w) {
    hold_numbers(image, numbers.frame, w, ~numbers.slots[w]);
    if (w == 0) core::set_bit(core::space_hints(image, format::FrameKind::inodes), numbers.frame);
}

/// Makes block `block` of the frame resident in the image, as zeros, if it is a new one.
template <class Team>
WARREN_HD void show_new_block(const Team& team, const core::Store& image,
                              const FreeNumbers& numbers, u64 block) {
    if (!numbers.is_new(block)) return;
    const u64 place = numbers.frame * format::frame_size + block * format::block_size;
    core::clear_block(team, core::block_at<format::Block>(image, place));
    once(team, [&] { core::set_bit(image.resident, place / format::block_size); });
}

}  // namespace warren
