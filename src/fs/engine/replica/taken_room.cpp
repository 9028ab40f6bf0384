// SPDX-License-Identifier: Apache-2.0
// Blocks are reserved and numbers are held as operations do it, many at a time.
#include "fs/engine/replica/taken_room.hpp"

#include <algorithm>
#include <thread>

#include "base/check.hpp"
#include "fs/core/held_frames.hpp"
#include "fs/ops/inode_frame.hpp"
#include "fs/ops/show_block.hpp"

namespace warren {

using format::FrameKind;

namespace {

// A run takes at most one part in this many of what is free, and leaves at least so many frames:
// others that find nothing would report a full volume.
constexpr u64 parts_of_free = 8;
constexpr u64 free_frames_min = 8;
constexpr u32 retries_max = 1000;

format::InodeBitmap& bitmap_of(const core::Store& store, u64 frame) {
    return *reinterpret_cast<format::InodeBitmap*>(store.base + frame * format::frame_size);
}

void need(ops::BatchWindow& window, u64 place) {
    WARREN_CHECK(window.needed_count < ops::needed_places_max);
    window.needed_places[window.needed_count++] = place;
}

}  // namespace

TakenRoom::~TakenRoom() {
    for (const core::Run& run : runs_)
        core::unreserve(store_, run.place, run.blocks);
    for (const FreeNumbers& numbers : numbers_) {
        format::InodeBitmap& bitmap = bitmap_of(store_, numbers.frame);
        for (u32 w = 0; w < core::bitmap_words; ++w) {
            if (numbers.slots[w] == 0) continue;
            core::let_go_slot(bitmap, {numbers.frame * format::frame_size, w, numbers.slots[w]});
        }
        core::set_bit(core::space_hints(store_, FrameKind::inodes), numbers.frame);
    }
}

Errc TakenRoom::take(u64 blocks, u64 numbers, ops::BatchWindow& window) {
    if (!has_plenty(blocks, numbers)) return Errc::not_supported;
    WARREN_TRY(take_numbers(numbers, window));
    return take_blocks(blocks);
}

bool TakenRoom::has_plenty(u64 blocks, u64 numbers) const {
    const core::StoreState& state = *store_.state;
    const u64 inode_blocks = numbers / format::inodes_per_block + format::blocks_per_frame;
    const u64 wanted = blocks + (numbers == 0 ? 0 : inode_blocks);
    const u64 taken = relaxed_load(state.blocks_used) + store_.reserve_blocks;
    return taken + parts_of_free * wanted <= store_.block_count() &&
           relaxed_load(state.free_frames) >= free_frames_min + wanted / format::blocks_per_frame;
}

Errc TakenRoom::take_blocks(u64 count) {
    u32 retries = 0;
    while (count > 0) {
        const u32 most = static_cast<u32>(std::min<u64>(count, format::blocks_per_frame));
        runs_.emplace_back();  // so that nothing fails once it is reserved
        const Result<core::Run> run =
            core::reserve_run(store_, ThreadTeam{}.worker, FrameKind::metadata, 0, most);
        if (run) {
            runs_.back() = *run;
        } else {
            runs_.pop_back();
            if (run.code() != Errc::retry || ++retries > retries_max) return Errc::not_supported;
            std::this_thread::yield();
            continue;
        }
        count -= run->blocks;
        const u64 frame = run->place / format::frame_size;
        std::array<u64, 8>& bits = by_frame_[frame];
        core::for_each_word(run->place, run->blocks,
                            [&](u64, u32 w, u64 mask) { bits[w] |= mask; });
        // The image must have the frame's kind.
        core::note_changed(store_, store_.table_place(frame));
    }
    return Errc::ok;
}

Errc TakenRoom::take_numbers(u64 count, ops::BatchWindow& window) {
    window.needed_count = 0;
    for (u64 frame = 0; count > 0; ++frame) {
        frame = core::find_space(store_, FrameKind::inodes, frame);
        if (frame >= store_.frame_count) break;
        WARREN_TRY(take_in_frame(frame, count, window));
    }
    while (count > 0) {
        std::vector<u64> added;
        WARREN_TRY(add_inode_frames(count, added, window));
        for (const u64 frame : added)
            WARREN_TRY(take_in_frame(frame, count, window));
    }
    std::ranges::sort(numbers_, {}, &FreeNumbers::frame);
    return Errc::ok;
}

/// Adds frames with so many numbers. Serving Errc::need_inodes would add none while one has a free
/// number.
Errc TakenRoom::add_inode_frames(u64 numbers, std::vector<u64>& frames, ops::BatchWindow& window) {
    constexpr u64 in_frame = format::inodes_per_frame - format::inodes_per_block;
    const u64 count = (numbers + in_frame - 1) / in_frame;
    frames.reserve(count);  // so that nothing fails once one is claimed
    std::vector<Errc> codes(count, Errc::not_supported);
    std::vector<u64> needed(count);
    const std::function<void(u64)> start = [&](u64 i) {
        codes[i] = start_inode_frame(frames[i], needed[i]);
    };
    while (frames.size() < count) {
        const Result<u64> claimed = core::claim_frame(store_, FrameKind::inodes);
        if (!claimed) break;
        frames.push_back(*claimed);
    }
    for_each_(frames.size(), start);
    for (u64 i = 0; i < count; ++i) {
        if (codes[i] == Errc::ok) continue;
        if (codes[i] == Errc::need_block) need(window, needed[i]);
        return codes[i];
    }
    return Errc::ok;
}

/// Makes a claimed frame one of inodes, or gives it back. All of its blocks are in memory
/// afterwards, or being loaded: the run finds them in the image.
Errc TakenRoom::start_inode_frame(u64 frame, u64& needed) const {
    static const format::Block zeros{};
    core::Operation<ThreadTeam> op(ThreadTeam{}, store_);
    ops::wipe_resident_blocks(op, frame);
    for (u64 b = 0; b < format::blocks_per_frame; ++b)
        ops::show_block(store_, frame * format::frame_size + b * format::block_size, zeros);
    Errc code = Errc::retry;
    for (u32 i = 0; code == Errc::retry && i < retries_max; ++i) {
        code = ops::start_wiped_inode_frame(op, frame);
        core::finish(op);
        if (code == Errc::retry) std::this_thread::yield();
    }
    if (code == Errc::ok) return code;
    core::unclaim_frame(store_, frame);
    needed = op.needed_place;
    return code == Errc::need_block || code == Errc::need_commit ? code : Errc::not_supported;
}

/// Takes up to `count` numbers of a frame, and takes them off `count`.
Errc TakenRoom::take_in_frame(u64 frame, u64& count, ops::BatchWindow& window) {
    if (core::kind_of(store_, frame) != FrameKind::inodes) return Errc::ok;
    const u64 place = frame * format::frame_size;
    if (!core::is_resident(store_, place)) {
        need(window, place);
        return Errc::need_block;
    }
    FreeNumbers& numbers = numbers_.emplace_back(FreeNumbers{frame, {}});
    for (u32 w = 0; w < core::bitmap_words && count > 0; ++w)
        count -= take_in_word(numbers, w, count, window);
    return window.needed_count == 0 ? Errc::ok : Errc::need_block;
}

/// Takes at most `most` numbers of a word; returns how many.
u64 TakenRoom::take_in_word(FreeNumbers& into, u32 w, u64 most, ops::BatchWindow& window) {
    format::InodeBitmap& bitmap = bitmap_of(store_, into.frame);
    const u64 free = core::free_slots(bitmap, w);
    if (free == 0) return 0;
    const u64 wanted = core::lowest_bits(free, static_cast<u32>(std::min<u64>(most, 64)));
    constexpr u64 one_block = (u64{1} << format::inodes_per_block) - 1;
    const u64 first = into.frame * format::inodes_per_frame + u64{w} * 64;
    for (u32 slot = 0; slot < 64; slot += format::inodes_per_block) {
        const u64 place = (first + slot) * format::inode_size;
        if ((wanted >> slot & one_block) == 0 || core::is_resident(store_, place)) continue;
        if (window.needed_count == ops::needed_places_max) return 0;
        need(window, place);
    }
    if (window.needed_count != 0) return 0;
    into.slots[w] = core::hold_slots(store_, into.frame, bitmap, w, wanted);
    return static_cast<u64>(hd::popcount(into.slots[w]));
}

u64 TakenRoom::blocks_in(u64 frame, u32 w) const {
    const auto found = by_frame_.find(frame);
    return found == by_frame_.end() ? 0 : found->second[w];
}

u64 TakenRoom::numbers_in(u64 frame, u32 w) const {
    const auto found = std::ranges::lower_bound(numbers_, frame, {}, &FreeNumbers::frame);
    return found == numbers_.end() || found->frame != frame ? 0 : found->slots[w];
}

}  // namespace warren
