// SPDX-License-Identifier: Apache-2.0
// Pinned memory for extents of any length, within a fixed limit. Pinning takes long, and unpinning
// needs memory that is idle, so it is pinned in large areas when it is first needed, and until the
// end.
//
// Areas are divided as by a buddy allocator: a free piece has a power of two of blocks and begins
// at a multiple of its length. An extent takes as many blocks as it has; the rest of a piece stays
// free.
//
// Invariant: no two free pieces could be one, and none is in use.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "base/reserved_range.hpp"
#include "fs/cache/block_memory.hpp"

namespace warren {

/// Pins a range of memory until what it returns is destroyed; null: it cannot be pinned.
using PinRange = std::function<std::shared_ptr<void>(void* at, u64 bytes)>;

class PinnedMemory final : public BlockMemory {
 public:
    /// Extents have at most `extent_blocks_max` blocks.
    PinnedMemory(u64 limit_blocks, u64 extent_blocks_max, PinRange pin);

    /// Where no piece is long enough, and no more can be pinned, the blocks are not pinned. After a
    /// refusal the next attempt comes after as many blocks as an area has, so that not every call
    /// waits for one.
    format::Block* take(u64 blocks) override;
    void give_back(format::Block* memory, u64 blocks) override;
    bool is_pinned(const format::Block* memory) const override {
        return base_ != nullptr && memory >= base_ && memory < base_ + end_;
    }

 private:
    static constexpr u32 lengths = 10;  // of pieces: 1 to 512 blocks
    static constexpr u64 piece_blocks = u64{1} << (lengths - 1);
    static constexpr u64 area_blocks = 32 * piece_blocks;  // pinned at once

    /// Lies in the first block of a free piece.
    struct Free {
        Free* next;
        Free* before;
    };

    bool pin_more();
    void push(u64 first, u32 length);
    void unlink(u64 first, u32 length);
    void release(u64 first, u32 length);
    void release_range(u64 first, u64 blocks);
    Free* at(u64 first) const { return reinterpret_cast<Free*>(base_ + first); }

    const PinRange pin_;
    const u64 end_;
    ReservedRange range_;
    format::Block* base_ = nullptr;
    u64 pinned_ = 0;   // blocks from the start on
    u64 unasked_ = 0;  // after a refusal: blocks to take from other memory before asking again
    std::vector<std::shared_ptr<void>> pins_;  // go before the range does
    std::array<Free*, lengths> free_{};        // by the binary logarithm of the length
    std::vector<u8> length_at_;  // for each block: 1 + that of a free piece that begins there, or 0
};

}  // namespace warren
