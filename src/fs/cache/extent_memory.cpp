// SPDX-License-Identifier: Apache-2.0
// An extent in the class of 2^k blocks has more than half as many blocks. So slots for twice the
// limit suffice for all extents within the limit; the spare slots are for callers that exceed it.
#include "fs/cache/extent_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <new>

#include "base/check.hpp"

namespace warren {

using format::Block;
using format::block_size;

namespace {

// Slots of each class for callers that each exceed the limit by one extent.
constexpr u64 spare_slots = 1024;

size_t class_of(u64 blocks) {
    return static_cast<size_t>(std::bit_width(blocks - 1));
}

}  // namespace

ExtentMemory::ExtentMemory(u64 limit_blocks, u64 extent_blocks_max)
    : limit_blocks_(limit_blocks), classes_(class_of(extent_blocks_max) + 1) {
    for (size_t i = 0; i < classes_.size(); ++i) {
        classes_[i].first_block = blocks_;
        classes_[i].slots = ((2 * limit_blocks) >> i) + spare_slots;
        blocks_ += classes_[i].slots << i;
    }
    range_ = ReservedRange(blocks_ * block_size);
    base_ = range_.as<Block>();
    // A huge page for an extent of one block would use memory beyond the limit.
    if (base_ != nullptr) ::madvise(base_, blocks_ * block_size, MADV_NOHUGEPAGE);
}

/// Returns memory of free slots to the system while more than the limit is held.
void ExtentMemory::release_surplus() {
    for (size_t i = classes_.size(); i-- > 0;) {
        Class& own = classes_[i];
        while (!own.warm.empty() && held_blocks_ > limit_blocks_) {
            const u64 slot = own.warm.back();
            own.warm.pop_back();
            ::madvise(base_ + own.first_block + (slot << i), own.touched[slot] * block_size,
                      MADV_DONTNEED);
            held_blocks_ -= own.touched[slot];
            own.touched[slot] = 0;
            own.empty.push_back(slot);
        }
    }
}

/// Finds a free slot. False if all slots of the class are in use, or no address range was reserved.
bool ExtentMemory::find_slot(Class& own, u64& slot) const {
    std::vector<u64>& back = own.warm.empty() ? own.empty : own.warm;
    if (!back.empty()) {
        slot = back.back();
        back.pop_back();
        return true;
    }
    slot = own.touched.size();
    if (base_ == nullptr || slot == own.slots) return false;
    if (slot == own.touched.capacity()) {
        // Room for as many slots as there are, so that giving a slot back never allocates.
        const u64 room = std::max<u64>(64, 2 * slot);
        own.warm.reserve(room);
        own.empty.reserve(room);
        own.touched.reserve(room);
    }
    own.touched.push_back(0);
    return true;
}

Block* ExtentMemory::take(u64 blocks) {
    const size_t index = class_of(blocks);
    WARREN_CHECK(blocks > 0 && index < classes_.size());
    Class& own = classes_[index];
    u64 slot = 0;
    if (!find_slot(own, slot)) return new (std::nothrow) Block[blocks];
    Block* memory = base_ + own.first_block + (slot << index);
    const u64 before = own.touched[slot];
    // Releases the blocks that a longer extent in this slot has used and this one does not.
    if (before > blocks) ::madvise(memory + blocks, (before - blocks) * block_size, MADV_DONTNEED);
    own.touched[slot] = static_cast<u32>(blocks);
    held_blocks_ = held_blocks_ - before + blocks;
    release_surplus();
    return memory;
}

void ExtentMemory::give_back(Block* memory, u64 blocks) {
    const bool is_ours = base_ != nullptr && memory >= base_ && memory < base_ + blocks_;
    if (!is_ours) {
        delete[] memory;
        return;
    }
    const size_t index = class_of(blocks);
    Class& own = classes_[index];
    own.warm.push_back(static_cast<u64>(memory - base_ - own.first_block) >> index);
    release_surplus();
}

}  // namespace warren
