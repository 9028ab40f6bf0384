// SPDX-License-Identifier: Apache-2.0
// Makes the changes of a run on an image (ImageChanges) in the Store that the image is of, all or
// nothing, so that both are equal again. Memory of blocks that are not resident may be written in
// either case.
//
// Whole blocks are taken over but for those with words that the host changes while the freeze
// barrier is closed: of the frame table only the blocks' bits and the pointers to counts are taken,
// of bitmaps of inodes only the used bits. Inodes that the run has removed are removed here by the
// rules of core/inode_table.hpp.
#pragma once

#include <atomic>
#include <mutex>

#include "fs/engine/replica/replica.hpp"
#include "fs/engine/replica/taken_room.hpp"

namespace warren {

/// Requires for its whole life: the freeze barrier is closed and no bulk step runs; since it was,
/// the image was equal to `store` before the run, whose room was `room`. The caller has journal
/// credits for all changed blocks, which are on their way from `memory`.
class Adoption {
 public:
    Adoption(const core::Store& store, const TakenRoom& room, ReplicaMemory& memory,
             const ImageChanges& changes)
        : store_(store), room_(room), memory_(memory), changes_(changes) {}

    /// Nothing has changed after an error of `memory`, or Errc::corrupt: the changes cannot be
    /// those of such a run, so the image is damaged. `for_each` divides the work among threads.
    Errc apply(const Replica::ForEach& for_each);

 private:
    struct Bits {
        u64 taken;
        u64 freed;
    };
    /// How the bits of a word differ in the image from those here.
    static Bits bits_of(u64 here, u64 there) { return {there & ~here, here & ~there}; }

    bool is_table(u64 place) const { return ops::is_table_place(store_, place); }
    bool is_bitmap(u64 place) const;
    bool is_hidden(u64 place) const;
    bool fits(u64 place, const format::Block& block) const;
    /// Calls `action(frame, entry)` for each entry of a block of the frame table.
    template <class Action>
    void each_entry(u64 place, const format::Block& block, const Action& action) const;

    Errc await(u64 end);
    void receive(u64 begin, u64 end);
    void remove_inodes(u64 place, const format::Block& block, u32 part) const;
    format::Block& target_of(u64 i) const {
        return core::block_at<format::Block>(store_, changes_.places[i]);
    }
    void copy_inode_lines(u64 i, u64 first, u64 count) const;
    void take_blocks(u64 begin, u64 end) const;
    void take_the_rest() const;
    void take_bitmap(u64 place, const format::Block& block) const;
    void take_entry(u64 frame, const format::FrameEntry& entry) const;
    void take_counters() const;
    void unmark(u64 place) const;

    const core::Store& store_;
    const TakenRoom& room_;
    ReplicaMemory& memory_;
    const ImageChanges& changes_;
    std::mutex awaiting_;
    std::atomic<u64> arrived_{0};          // of the changed blocks
    std::atomic<Errc> failure_{Errc::ok};  // of `memory_`
    std::atomic<bool> fit_{true};
};

}  // namespace warren
