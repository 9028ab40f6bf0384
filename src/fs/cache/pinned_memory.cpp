// SPDX-License-Identifier: Apache-2.0
// Giving back allocates nothing: lists of free pieces lie in these.
#include "fs/cache/pinned_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "base/check.hpp"

namespace warren {

using format::Block;
using format::block_size;

PinnedMemory::PinnedMemory(u64 limit_blocks, u64 extent_blocks_max, PinRange pin)
    : pin_(std::move(pin)),
      end_((limit_blocks + piece_blocks - 1) / piece_blocks * piece_blocks),
      length_at_(end_) {
    WARREN_CHECK(extent_blocks_max <= piece_blocks);
    // A little more, so that pieces begin at multiples of a huge page.
    constexpr u64 piece_bytes = piece_blocks * block_size;
    range_ = ReservedRange(end_ * block_size + piece_bytes);
    if (range_.data() == nullptr) return;
    const u64 address = reinterpret_cast<u64>(range_.data());
    base_ = reinterpret_cast<Block*>((address + piece_bytes - 1) / piece_bytes * piece_bytes);
    ::madvise(base_, end_ * block_size, MADV_HUGEPAGE);
}

void PinnedMemory::push(u64 first, u32 length) {
    length_at_[first] = static_cast<u8>(length + 1);
    Free* const piece = at(first);
    *piece = {free_[length], nullptr};
    if (piece->next != nullptr) piece->next->before = piece;
    free_[length] = piece;
}

void PinnedMemory::unlink(u64 first, u32 length) {
    WARREN_CHECK(length_at_[first] == length + 1);
    length_at_[first] = 0;
    const Free* const piece = at(first);
    (piece->before != nullptr ? piece->before->next : free_[length]) = piece->next;
    if (piece->next != nullptr) piece->next->before = piece->before;
}

/// Makes a piece free, joined with those beside it.
void PinnedMemory::release(u64 first, u32 length) {
    for (; length + 1 < lengths; ++length) {
        const u64 other = first ^ u64 { 1 } << length;
        if (other >= pinned_ || length_at_[other] != length + 1) break;
        unlink(other, length);
        first = std::min(first, other);
    }
    push(first, length);
}

void PinnedMemory::release_range(u64 first, u64 blocks) {
    while (blocks > 0) {
        const auto most = static_cast<u32>(std::bit_width(blocks)) - 1;
        const u32 length = std::min(most, static_cast<u32>(std::countr_zero(first | piece_blocks)));
        release(first, length);
        first += u64{1} << length;
        blocks -= u64{1} << length;
    }
}

/// False if all is pinned, or no more can be.
bool PinnedMemory::pin_more() {
    const u64 blocks = std::min(area_blocks, end_ - pinned_);
    if (base_ == nullptr || blocks == 0 || unasked_ > 0) return false;
    pins_.reserve(pins_.size() + 1);
    std::shared_ptr<void> pin = pin_(base_ + pinned_, blocks * block_size);
    if (pin == nullptr) {
        unasked_ = area_blocks;
        return false;
    }
    pins_.push_back(std::move(pin));
    pinned_ += blocks;
    release_range(pinned_ - blocks, blocks);
    return true;
}

Block* PinnedMemory::take(u64 blocks) {
    WARREN_CHECK(blocks > 0 && blocks <= piece_blocks);
    const auto enough = [&] {
        const auto shortest = free_.begin() + std::bit_width(blocks - 1);
        return std::find_if(shortest, free_.end(), [](Free* one) { return one != nullptr; });
    };
    auto list = enough();
    if (list == free_.end() && pin_more()) list = enough();
    if (list == free_.end()) {
        unasked_ -= std::min(unasked_, blocks);
        return new (std::nothrow) Block[blocks];
    }
    const auto length = static_cast<u32>(list - free_.begin());
    Block* const memory = reinterpret_cast<Block*>(*list);
    const auto first = static_cast<u64>(memory - base_);
    unlink(first, length);
    release_range(first + blocks, (u64{1} << length) - blocks);
    return memory;
}

void PinnedMemory::give_back(Block* memory, u64 blocks) {
    if (!is_pinned(memory)) {
        delete[] memory;
        return;
    }
    release_range(static_cast<u64>(memory - base_), blocks);
}

}  // namespace warren
