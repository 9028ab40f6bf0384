// SPDX-License-Identifier: Apache-2.0
// The room of a window is taken before the barrier is closed, and retry reasons are served when it
// is open again. A window that lacks blocks is run once more with as many as it has asked for.
#include "fs/engine/replica/replica_batches.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "fs/engine/replica/taken_room.hpp"

namespace warren {
namespace {

/// How many items share a new block, if nothing better is known.
constexpr u64 items_a_block = 16;
constexpr u64 blocks_min = 64;
/// Of a window: to halve it, or to take more blocks.
constexpr u32 attempts_max = 6;

}  // namespace

Result<OpenBatch> ReplicaBatches::open_batch(const ops::BatchShape& shape) {
    if (runs_.failure() != Errc::ok) return Errc::not_supported;
    const bool is_first = is_idle();
    std::unique_lock<std::mutex> lock;
    if (is_first) {
        // Not waited for: its holder may wait for the thread pool, in which the caller may be.
        lock = std::unique_lock(turn_, std::try_to_lock);
        if (!lock) return Errc::busy;
    }
    const u32 number = slots_[0].is_open ? 1 : 0;
    Slot& slot = slots_[number];
    WARREN_CHECK(!slot.is_open);
    const Result<ops::BatchMemory> memory = slot.batch.open(shape);
    if (!memory) {
        // A second one may be opened again as the first.
        if (is_first && memory.code() != Errc::no_space) runs_.note_failure(memory.code());
        return memory.code();
    }
    lock.release();
    slot.shape = shape;
    slot.is_open = true;
    return OpenBatch{number, *memory};
}

void ReplicaBatches::close_batch(u32 number) {
    slots_[number].batch.close();
    slots_[number].is_open = false;
    if (!is_idle()) return;
    beside_ = nullptr;
    turn_.unlock();
}

Errc ReplicaBatches::run_batch(u32 number, const ops::BatchHeader& header,
                               ops::BatchWindow& window) {
    for (u32 i = 0; i < attempts_max && runs_.failure() == Errc::ok; ++i) {
        const u64 blocks_before = blocks_wanted_;
        const Errc code = run_window(slots_[number], header, window);
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
Errc ReplicaBatches::run_window(Slot& slot, const ops::BatchHeader& header,
                                ops::BatchWindow& window) {
    const u64 items = window.end - window.begin;
    blocks_wanted_ = std::max(blocks_wanted_, items / items_a_block + blocks_min);
    TakenRoom room(runs_.store(), runs_.for_each());
    WARREN_TRY(room.take(blocks_wanted_, slot.shape.makes_inodes() ? items : 0, window));
    window.wanted_blocks = 0;
    const auto run = [&](const core::Store& image, Errc& result) -> Errc {
        WARREN_TRY(slot.batch.run(image, header, window, result));
        result = settle(result, window);
        return Errc::ok;
    };
    const Errc status = runs_.run(room, run, std::exchange(beside_, nullptr));
    blocks_wanted_ = std::max(blocks_wanted_, window.wanted_blocks + window.wanted_blocks / 8);
    return status;
}

/// What follows from the status of a run: Errc::ok, or a reason for which nothing has changed.
Errc ReplicaBatches::settle(Errc status, const ops::BatchWindow& window) const {
    const core::Store& store = runs_.store();
    switch (status) {
        case Errc::need_commit:
            return runs_.had_journal() ? Errc::overflow : status;
        case Errc::need_frame:
            return Errc::need_space;
        case Errc::need_inodes:  // it had one for each item
            return Errc::not_supported;
        case Errc::need_block: {
            // What is in memory here is in the image, unless the volume is damaged.
            const auto* const begin = window.needed_places;
            const bool is_here = std::any_of(begin, begin + window.needed_count, [&](u64 place) {
                return place >= store.size_bytes || core::is_resident(store, place);
            });
            return is_here || window.needed_count == 0 ? Errc::not_supported : status;
        }
        default:
            return status;
    }
}

}  // namespace warren
