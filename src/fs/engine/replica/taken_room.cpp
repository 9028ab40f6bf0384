// SPDX-License-Identifier: Apache-2.0
// Blocks are reserved and numbers are held as operations do it, many at a time.
#include "fs/engine/replica/taken_room.hpp"

#include <algorithm>
#include <iterator>

#include "base/check.hpp"
#include "fs/core/held_frames.hpp"
#include "fs/engine/wait_to_retry.hpp"
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
    return core::block_at<format::InodeBitmap>(store, frame * format::frame_size);
}

void need(ops::BatchWindow& window, u64 place) {
    WARREN_CHECK(window.needed_count < ops::needed_places_max);
    window.needed_places[window.needed_count++] = place;
}

/// Takes the blocks of a claimed frame out of memory if it can, else fills them with zeros. No
/// inode exists there afterwards.
void clear_frame(core::Operation<ThreadTeam>& op, u64 frame) {
    const core::Store& store = op.store;
    if (!core::has_bit(store.resident + frame * format::words_per_frame)) return;
    if (!ops::forget_blocks(store, frame)) return ops::wipe_resident_blocks(op, frame);
    auto* const slots = reinterpret_cast<format::Inode*>(store.base + frame * format::frame_size);
    for (u64 i = 0; i < format::inodes_per_frame; ++i) {
        // Seldom: the generations of inodes that were there have ended.
        if (relaxed_load(slots[i].generation) != 0) relaxed_store(slots[i].generation, 0);
    }
}

}  // namespace

TakenRoom::~TakenRoom() {
    for (const core::Run& run : runs_)
        core::unreserve(store_, run.place, run.blocks);
    for (const FreeNumbers& numbers : numbers_) {
        for (u32 w = 0; w < std::size(numbers.new_blocks); ++w)
            ops::end_inode_reservations(store_, numbers.frame, w, numbers.new_blocks[w]);
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
        if (!run) {
            runs_.pop_back();
            if (run.code() != Errc::retry || ++retries > retries_max) return Errc::not_supported;
            wait_to_retry(*store_.state);
            continue;
        }
        runs_.back() = *run;
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
        FreeNumbers& numbers = numbers_.emplace_back(FreeNumbers{frame, {}, {}});
        const Errc code = take_in_frame(numbers, count, window);
        if (!numbers.is_any()) numbers_.pop_back();
        WARREN_TRY(code);
    }
    while (count > 0)
        WARREN_TRY(add_inode_frames(count, window));
    std::ranges::sort(numbers_, {}, &FreeNumbers::frame);
    return Errc::ok;
}

/// Adds frames for `count` numbers, takes these and takes them off `count`. Serving
/// Errc::need_inodes would add none while one has a free number.
Errc TakenRoom::add_inode_frames(u64& count, ops::BatchWindow& window) {
    constexpr u64 in_frame = format::inode_slots_per_frame;
    struct Added {
        FreeNumbers numbers{};
        u64 wanted = 0;
        ops::BatchWindow window;
        Errc code = Errc::not_supported;
    };
    // Allocated first, so that nothing fails once a frame is claimed.
    std::vector<Added> added((count + in_frame - 1) / in_frame);
    numbers_.reserve(numbers_.size() + added.size());
    u64 claimed = 0;
    for (; claimed < added.size(); ++claimed) {
        const Result<u64> frame = core::claim_frame(store_, FrameKind::inodes);
        if (!frame) break;
        added[claimed].numbers.frame = *frame;
        added[claimed].wanted = std::min(count, in_frame);
        count -= added[claimed].wanted;
    }
    for_each_(claimed, [&](u64 i) {
        Added& one = added[i];
        one.code = start_inode_frame(one.numbers.frame, one.window);
        if (one.code == Errc::ok) one.code = take_in_frame(one.numbers, one.wanted, one.window);
    });
    Errc code = Errc::ok;
    for (const Added& one : added) {
        if (one.numbers.is_any()) numbers_.push_back(one.numbers);
        count += one.wanted;
        if (code != Errc::ok || one.code == Errc::ok) continue;
        code = one.code;
        window.needed_count = one.window.needed_count;
        std::ranges::copy(one.window.needed_places, window.needed_places);
    }
    return code;
}

/// Makes a claimed frame one of inodes, or gives it back.
Errc TakenRoom::start_inode_frame(u64 frame, ops::BatchWindow& window) const {
    static const format::Block zeros{};
    core::Operation<ThreadTeam> op(ThreadTeam{}, store_);
    clear_frame(op, frame);
    ops::show_block(store_, frame * format::frame_size, FrameKind::free, zeros);  // its bitmap
    Errc code = Errc::retry;
    for (u32 i = 0; code == Errc::retry && i < retries_max; ++i) {
        code = ops::start_wiped_inode_frame(op, frame);
        core::finish(op);
        if (code == Errc::retry) wait_to_retry(*store_.state);
    }
    if (code == Errc::ok) return code;
    core::unclaim_frame(store_, frame);
    if (code == Errc::need_block) need(window, op.needed_place);
    return code == Errc::need_block || code == Errc::need_commit ? code : Errc::not_supported;
}

/// Takes up to `count` numbers of a frame, or a few more, and takes them off `count`.
Errc TakenRoom::take_in_frame(FreeNumbers& numbers, u64& count, ops::BatchWindow& window) const {
    const u64 frame = numbers.frame;
    core::JournalCredits search;
    for (u32 i = 0; core::enter_search(ThreadTeam{}, store_, false, search) != Errc::ok; ++i) {
        if (i == retries_max) return Errc::not_supported;
        wait_to_retry(*store_.state);
    }
    if (core::kind_of(store_, frame) != FrameKind::inodes) return Errc::ok;
    const u64 place = frame * format::frame_size;
    if (!core::is_resident(store_, place)) {
        need(window, place);
        return Errc::need_block;
    }
    for (u32 w = 0; w < core::bitmap_words && count > 0; ++w)
        count -= std::min(count, take_in_word(numbers, w, count, window));
    return window.needed_count == 0 ? Errc::ok : Errc::need_block;
}

/// Takes numbers of a word, at least `wanted` if it has as many; returns how many. Of a block that
/// is in memory it takes any, of one that is not all or none. Takes nothing once a block has to be
/// loaded: the caller then gives everything back.
u64 TakenRoom::take_in_word(FreeNumbers& into, u32 w, u64 wanted, ops::BatchWindow& window) const {
    format::InodeBitmap& bitmap = bitmap_of(store_, into.frame);
    constexpr u64 blocks = 64 / format::inodes_per_block;
    const u64 free = core::free_slots(bitmap, w);
    const auto slots_of = [](u64 block) {
        return ((u64{1} << format::inodes_per_block) - 1) << block * format::inodes_per_block % 64;
    };
    const auto place_of = [&](u64 block) {
        return into.frame * format::frame_size + block * format::block_size;
    };
    const auto need_block = [&](u64 block) {
        if (window.needed_count < ops::needed_places_max) need(window, place_of(block));
    };
    u64 asked = 0;
    u64 left = wanted;
    for (u64 block = w * blocks; block < (w + 1) * blocks && left > 0; ++block) {
        const u64 all = slots_of(block);
        const u64 there = free & all;
        const bool is_here = core::is_resident(store_, place_of(block));
        if (there == 0) continue;
        if (!is_here && there != all) {
            need_block(block);
            continue;
        }
        const u64 some =
            is_here ? core::lowest_bits(there, static_cast<u32>(std::min<u64>(left, 64))) : all;
        asked |= some;
        left -= std::min<u64>(left, static_cast<u64>(hd::popcount(some)));
    }
    if (asked == 0 || window.needed_count != 0) return 0;
    u64 held = core::hold_slots(store_, into.frame, bitmap, w, asked);
    for (u64 block = w * blocks; block < (w + 1) * blocks; ++block) {
        const u64 all = slots_of(block);
        if ((asked & all) == 0 || core::is_resident(store_, place_of(block))) continue;
        // With all numbers held no inode can appear there, so nothing but the run needs the block.
        if ((held & all) == all && ops::begin_showing(store_, place_of(block), FrameKind::inodes)) {
            into.new_blocks[block / 64] |= u64{1} << block % 64;
        } else if (!core::is_resident(store_, place_of(block))) {
            // Another thread may be loading it.
            core::let_go_slot(bitmap, {into.frame * format::frame_size, w, held & all});
            core::set_bit(core::space_hints(store_, FrameKind::inodes), into.frame);
            held &= ~all;
            need_block(block);
        }
    }
    into.slots[w] |= held;
    return static_cast<u64>(hd::popcount(held));
}

u64 TakenRoom::blocks_in(u64 frame, u32 w) const {
    const auto found = by_frame_.find(frame);
    return found == by_frame_.end() ? 0 : found->second[w];
}

u64 TakenRoom::numbers_in(u64 frame, u32 w) const {
    const FreeNumbers* const numbers = find_numbers(frame);
    return numbers == nullptr ? 0 : numbers->slots[w];
}

bool TakenRoom::is_new_block(u64 place) const {
    const FreeNumbers* const numbers = find_numbers(place / format::frame_size);
    return numbers != nullptr &&
           numbers->is_new(place / format::block_size % format::blocks_per_frame);
}

/// The numbers of a frame, or null. Requires: take() has ended.
const FreeNumbers* TakenRoom::find_numbers(u64 frame) const {
    const auto found = std::ranges::lower_bound(numbers_, frame, {}, &FreeNumbers::frame);
    return found == numbers_.end() || found->frame != frame ? nullptr : &*found;
}

}  // namespace warren
