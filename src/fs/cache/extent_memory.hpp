// SPDX-License-Identifier: Apache-2.0
// Memory for extents of any length that takes no more than was promised: a general allocator keeps
// what extents of other lengths have left behind, and pays a block for the alignment of each.
//
// Addresses are plenty, so each class of lengths has a range of addresses of its own, cut into
// slots, and no hole is ever too short. What a slot gave back stays for the next one of its class
// until memory is wanted elsewhere.
//
// Invariant: the system's pages in use are at most those of the extents out, and beyond that at
// most what fills the limit up.
#pragma once

#include <vector>

#include "fs/format/layout.hpp"

namespace warren {

/// Not thread-safe: the buffer's lock guards it.
class ExtentMemory {
 public:
    /// Extents have at most `extent_blocks_max` blocks.
    ExtentMemory(u64 limit_blocks, u64 extent_blocks_max);
    ~ExtentMemory();
    ExtentMemory(const ExtentMemory&) = delete;
    ExtentMemory& operator=(const ExtentMemory&) = delete;

    /// Blocks side by side, with any contents; beyond the limit if more are out than that. Null, or
    /// std::bad_alloc and nothing taken, if the system has no more. Requires: at least one, at most
    /// extent_blocks_max.
    format::Block* take(u64 blocks);
    /// Requires: from take() with as many.
    void give_back(format::Block* memory, u64 blocks);

    /// Blocks that take memory of the system at most, those given back included.
    u64 held_blocks() const { return held_blocks_; }

 private:
    /// Slots of one length, a power of two.
    struct Class {
        u64 first_block = 0;  // from the start of all
        u64 slots = 0;
        std::vector<u32> touched;  // blocks of each slot that was ever out which have memory
        std::vector<u64> warm;     // slots given back, and still with memory
        std::vector<u64> empty;    // slots given back, without memory
    };
    bool find_slot(Class& own, u64& slot) const;
    void release_surplus();

    const u64 limit_blocks_;
    std::vector<Class> classes_;  // by the binary logarithm of the slots' length
    format::Block* base_ = nullptr;
    u64 reserved_bytes_ = 0;
    u64 held_blocks_ = 0;  // the sum of all that was touched
};

}  // namespace warren
