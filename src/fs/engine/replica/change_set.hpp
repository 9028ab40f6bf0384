// SPDX-License-Identifier: Apache-2.0
// The blocks that were marked as changed, taken from a Store in one swap.
#pragma once

#include <utility>

#include "base/reserved_range.hpp"
#include "fs/core/frame_bits.hpp"
#include "fs/ops/commit_snapshot.hpp"

namespace warren {

class ChangeSet {
 public:
    explicit ChangeSet(const core::Store& store)
        : store_(store),
          blocks_((store.block_count() / 64 + 1) * sizeof(u64)),
          frames_((store.frame_count / 64 + 1) * sizeof(u64)) {}

    /// Whether the system gave the address ranges.
    bool is_open() const { return blocks_.data() != nullptr && frames_.data() != nullptr; }

    /// Which of `bits`, marked blocks of word `w` of the bitmaps, are metadata that is not in
    /// memory: of a frame that was taken out of memory all. The image drops them together. A block
    /// that becomes resident now is marked after it, so a later version has it.
    u64 gone(u64 w, u64 bits) const {
        const bool is_metadata = format::holds_metadata(core::kind_of(store_, w / frame_words));
        return is_metadata ? bits & ~relaxed_load(store_.resident[w]) : 0;
    }
    /// How many blocks are marked in the Store, about; those that are gone() count as one for each
    /// word. Needs no barrier.
    u64 marked() const {
        u64 count = 0;
        each_frame(store_.changed_frames, [&](u64 frame) {
            for (u64 w = frame * frame_words; w < (frame + 1) * frame_words; ++w) {
                const u64 marks = relaxed_load(store_.changed[w]);
                const u64 dropped = gone(w, marks);
                count += static_cast<u64>(hd::popcount(marks & ~dropped)) + (dropped != 0 ? 1 : 0);
            }
        });
        return count;
    }
    bool is_any_marked() const {
        const u64 end = ops::dirty_frames_end(store_);
        return core::find_bit_up(store_.changed_frames, 0, end) < end;
    }

    /// Moves all marks here and clears them. Requires: this is empty, the freeze barrier is closed.
    void take() {
        each_frame(store_.changed_frames, [&](u64 frame) {
            // Before its blocks: a thread that loads a block marks the block, then the frame.
            // Acquire: pairs with the release in note_loaded().
            device_atomic<u64>(store_.changed_frames[frame / 64])
                .fetch_and(~(u64{1} << frame % 64), hd::memory_order_acquire);
            for (u64 w = frame * frame_words; w < (frame + 1) * frame_words; ++w) {
                // Acquire: pairs with the release in note_loaded().
                blocks()[w] =
                    device_atomic<u64>(store_.changed[w]).exchange(0, hd::memory_order_acquire);
            }
            core::set_bit(frames(), frame);
        });
    }
    /// Calls `action(w, bits)` for the blocks of each word of the bitmaps that has any, in rising
    /// order, until it fails, and empties this.
    template <class Action>
    Errc drain(const Action& action) {
        Errc code = Errc::ok;
        each_frame(frames(), [&](u64 frame) {
            for (u64 w = frame * frame_words; w < (frame + 1) * frame_words; ++w) {
                const u64 bits = std::exchange(blocks()[w], 0);
                if (bits != 0 && code == Errc::ok) code = action(w, bits);
            }
            core::clear_bit(frames(), frame);
        });
        return code;
    }

 private:
    static constexpr u64 frame_words = format::words_per_frame;

    u64* blocks() const { return blocks_.as<u64>(); }
    u64* frames() const { return frames_.as<u64>(); }
    template <class Action>
    void each_frame(const u64* frames, const Action& action) const {
        const u64 end = ops::dirty_frames_end(store_);
        for (u64 frame = 0; (frame = core::find_bit_up(frames, frame, end)) < end; ++frame)
            action(frame);
    }

    const core::Store& store_;
    ReservedRange blocks_;
    ReservedRange frames_;
};

}  // namespace warren
