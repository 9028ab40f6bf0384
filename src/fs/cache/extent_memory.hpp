// SPDX-License-Identifier: Apache-2.0
// Memory for extents of any length, up to a limit. A general allocator would keep memory that
// extents of other lengths have freed, and would need an extra block to align each extent.
//
// Addresses are plentiful, so each class of lengths has its own range of addresses, divided into
// slots, and there is no fragmentation. A free slot keeps its memory for the next extent of its
// class until the memory is needed elsewhere.
//
// Invariant: pages have memory only if an extent uses them, or if they belong to free slots and the
// total does not exceed the limit.
#pragma once

#include <vector>

#include "base/reserved_range.hpp"
#include "fs/cache/block_memory.hpp"

namespace warren {

class ExtentMemory final : public BlockMemory {
 public:
    /// Extents have at most `extent_blocks_max` blocks.
    ExtentMemory(u64 limit_blocks, u64 extent_blocks_max);

    format::Block* take(u64 blocks) override;
    void give_back(format::Block* memory, u64 blocks) override;
    bool is_pinned(const format::Block* /*memory*/) const override { return false; }

    /// An upper bound of the number of blocks that have memory, those of free slots included.
    u64 held_blocks() const { return held_blocks_; }

 private:
    /// The slots of one class: their length is a power of two.
    struct Class {
        u64 first_block = 0;  // offset of the class from base_, in blocks
        u64 slots = 0;
        std::vector<u32> touched;  // for each slot ever used: how many of its blocks have memory
        std::vector<u64> warm;     // free slots that still have memory
        std::vector<u64> empty;    // free slots without memory
    };
    bool find_slot(Class& own, u64& slot) const;
    void release_surplus();

    const u64 limit_blocks_;
    std::vector<Class> classes_;  // by the binary logarithm of the slot length
    ReservedRange range_;
    format::Block* base_ = nullptr;  // of all classes, or null
    u64 blocks_ = 0;                 // of all slots
    u64 held_blocks_ = 0;            // the sum of `touched` of all classes
};

}  // namespace warren
