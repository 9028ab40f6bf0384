// SPDX-License-Identifier: Apache-2.0
// The room of a window is taken before the barrier is closed, and retry reasons are served when it
// is open again. A window that lacks blocks is run once more with as many as it has asked for.
#include "fs/engine/replica/replica_batches.hpp"

#include <algorithm>

#include "base/out_of_memory.hpp"
#include "fs/engine/replica/adoption.hpp"
#include "fs/engine/replica/taken_room.hpp"

namespace warren {
namespace {

/// A window changes at most this many blocks: those that are brought back have memory.
constexpr u64 changed_blocks_max = 32'768;
/// How many items share a new block, if nothing better is known.
constexpr u64 items_a_block = 16;
constexpr u64 blocks_min = 64;
/// Of a window: to halve it, or to take more blocks.
constexpr u32 attempts_max = 6;

}  // namespace

Result<ops::BatchMemory> ReplicaBatches::open_batch(const ops::BatchShape& shape) {
    if (failure_ != Errc::ok) return Errc::not_supported;
    std::unique_lock lock(turn_);
    shape_ = shape;
    const Result<ops::BatchMemory> memory = batch_.open(shape);
    if (memory) {
        lock.release();
    } else if (memory.code() != Errc::no_space) {
        failure_ = memory.code();
    }
    return memory;
}

void ReplicaBatches::close_batch() {
    batch_.close();
    turn_.unlock();
}

Errc ReplicaBatches::run_batch(const ops::BatchHeader& header, ops::BatchWindow& window) {
    for (u32 i = 0; i < attempts_max && failure_ == Errc::ok; ++i) {
        const u64 blocks_before = blocks_wanted_;
        const Errc code = run_window(header, window);
        if (code == Errc::overflow) {
            window.end = window.begin + (window.end - window.begin + 1) / 2;
        } else if (code != Errc::need_space || blocks_wanted_ <= blocks_before) {
            return code == Errc::need_space ? Errc::not_supported : code;
        }
    }
    return Errc::not_supported;
}

/// Errc::overflow: the window changes more blocks than can be brought back. Errc::need_space: it
/// needs blocks_wanted_ new blocks.
Errc ReplicaBatches::run_window(const ops::BatchHeader& header, ops::BatchWindow& window) {
    const u64 items = window.end - window.begin;
    blocks_wanted_ = std::max(blocks_wanted_, items / items_a_block + blocks_min);
    TakenRoom room(store_, for_each_);
    WARREN_TRY(room.take(blocks_wanted_, shape_.makes_inodes() ? items : 0, window));
    Errc status = Errc::retry;
    failure_ = replica_.change(
        changed_blocks_max,
        [&](ReplicaMemory& memory) {
            return or_no_memory([&] { return run_on(memory, room, header, window, status); });
        },
        may_load_);
    if (failure_ != Errc::ok) return Errc::not_supported;
    blocks_wanted_ = std::max(blocks_wanted_, window.wanted_blocks + window.wanted_blocks / 8);
    if (status == Errc::ok) ++windows_;
    return status;
}

/// Within Replica::change().
Errc ReplicaBatches::run_on(ReplicaMemory& memory, const TakenRoom& room,
                            const ops::BatchHeader& header, ops::BatchWindow& window,
                            Errc& status) const {
    core::StoreState& state = *store_.state;
    const u64 room_left = core::JournalRoom::now(state).left();
    const u64 credits_wanted = std::min(room_left, changed_blocks_max);
    core::JournalCredits credits;
    status = credits.verdict(credits.reserve(state, credits_wanted), credits_wanted);
    if (status != Errc::ok) return Errc::ok;
    RunRoom run_room{room.blocks(), room.numbers(), {}, store_.reserve_blocks};
    core::StoreState& there = run_room.state;
    there.blocks_used = relaxed_load(state.blocks_used);
    there.inodes_used = relaxed_load(state.inodes_used);
    there.inode_slots = relaxed_load(state.inode_slots);
    there.metadata_frames_end = relaxed_load(state.metadata_frames_end);
    there.data_frames_begin = relaxed_load(state.data_frames_begin);
    there.generation = relaxed_load(state.generation);
    there.generation_limit = relaxed_load(state.generation_limit);
    there.journal_room = credits_wanted;
    WARREN_TRY(memory.open_run(run_room));
    window.wanted_blocks = 0;
    WARREN_TRY(batch_.run(memory.image(), header, window, status));
    status = settle(status, window, room_left > changed_blocks_max);
    if (status != Errc::ok) return Errc::ok;
    ImageChanges changes;
    WARREN_TRY(memory.fetch_changes(changes));
    const Adoption adoption(store_, room, changes);
    if (!adoption.fits()) return Errc::corrupt;
    adoption.apply(for_each_);
    return Errc::ok;
}

/// What follows from the status of a run: Errc::ok, or a reason for which nothing has changed.
Errc ReplicaBatches::settle(Errc status, const ops::BatchWindow& window,
                            bool is_short_of_memory) const {
    switch (status) {
        case Errc::need_commit:
            return is_short_of_memory ? Errc::overflow : status;
        case Errc::need_frame:
            return Errc::need_space;
        case Errc::need_inodes:  // it had one for each item
            return Errc::not_supported;
        case Errc::need_block: {
            // What is in memory here is in the image, unless the volume is damaged.
            const auto* const begin = window.needed_places;
            const bool is_here = std::any_of(begin, begin + window.needed_count, [&](u64 place) {
                return place >= store_.size_bytes || core::is_resident(store_, place);
            });
            return is_here || window.needed_count == 0 ? Errc::not_supported : status;
        }
        default:
            return status;
    }
}

}  // namespace warren
