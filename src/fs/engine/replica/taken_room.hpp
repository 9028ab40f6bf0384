// SPDX-License-Identifier: Apache-2.0
// Blocks and numbers of inodes that the host takes for a run on an image. It takes them before it
// closes the freeze barrier, because numbers cannot be taken behind the closed barrier.
//
// Invariant: what is here is free, and no operation finds it. It is given back at the end, used by
// then or not.
#pragma once

#include <array>
#include <unordered_map>
#include <vector>

#include "fs/bulk/batch/batch.hpp"
#include "fs/engine/replica/replica.hpp"
#include "fs/engine/replica/run_room.hpp"

namespace warren {

class TakenRoom {
 public:
    /// `for_each` outlives this.
    TakenRoom(const core::Store& store, const Replica::ForEach& for_each)
        : store_(store), for_each_(for_each) {}
    ~TakenRoom();
    TakenRoom(const TakenRoom&) = delete;

    /// Takes `blocks` blocks for metadata and `numbers` numbers of inodes, for which it
    /// adds frames. Errc::need_block if inodes are not in memory, with their blocks in `window`;
    /// Errc::need_commit; Errc::not_supported if others would find too little. Call it once.
    Errc take(u64 blocks, u64 numbers, ops::BatchWindow& window);

    std::span<const core::Run> blocks() const { return runs_; }
    std::span<const FreeNumbers> numbers() const { return numbers_; }
    /// The bits of the taken blocks in word `w` of a frame.
    u64 blocks_in(u64 frame, u32 w) const;
    /// Those of the taken numbers.
    u64 numbers_in(u64 frame, u32 w) const;
    /// Whether the block at `place` is one of FreeNumbers::new_blocks.
    bool is_new_block(u64 place) const;

 private:
    bool has_plenty(u64 blocks, u64 numbers) const;
    Errc take_blocks(u64 count);
    Errc take_numbers(u64 count, ops::BatchWindow& window);
    Errc add_inode_frames(u64& count, ops::BatchWindow& window);
    Errc start_inode_frame(u64 frame, ops::BatchWindow& window) const;
    Errc take_in_frame(FreeNumbers& numbers, u64& count, ops::BatchWindow& window) const;
    u64 take_in_word(FreeNumbers& into, u32 w, u64 wanted, ops::BatchWindow& window) const;
    const FreeNumbers* find_numbers(u64 frame) const;

    const core::Store& store_;
    const Replica::ForEach& for_each_;
    std::vector<core::Run> runs_;
    std::unordered_map<u64, std::array<u64, 8>> by_frame_;
    std::vector<FreeNumbers> numbers_;  // in rising order of frames
};

}  // namespace warren
