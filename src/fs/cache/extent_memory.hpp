// SPDX-License-Identifier: Apache-2.0
// Memory for extents of any length, within a fixed limit: a general allocator would keep memory
// freed by extents of other lengths, and would need an extra block to align each.
//
// Addresses are plentiful, so each class of lengths has its own range of addresses, divided into
// slots, and there is no fragmentation. The memory of a free slot stays for the next extent of its
// class until it is needed elsewhere.
//
// Invariant: the pages in use are those of the extents in use, plus free ones at most up to the
// limit.
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

    /// Contiguous blocks with any contents; may exceed the limit. Null, or std::bad_alloc and
    /// nothing taken, if the system has no more memory. Requires: at least one, at most
    /// extent_blocks_max.
    format::Block* take(u64 blocks);
    /// Requires: from take() with as many.
    void give_back(format::Block* memory, u64 blocks);

    /// An upper bound of the blocks that have memory, those given back included.
    u64 held_blocks() const { return held_blocks_; }

 private:
    /// Slots of one length, a power of two.
    struct Class {
        u64 first_block = 0;  // from the start of all
        u64 slots = 0;
        std::vector<u32> touched;  // for each slot ever used: how many of its blocks have memory
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
