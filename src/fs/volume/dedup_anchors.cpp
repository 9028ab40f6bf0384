// SPDX-License-Identifier: Apache-2.0
// Of blocks with equal fingerprints in a row, all are anchors, so the choice depends on no order.
#include "fs/volume/dedup_anchors.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "base/check.hpp"
#include "base/zeros.hpp"

namespace warren {
namespace {

using format::block_size;
constexpr u64 row_rest = anchor_row - 1;
/// The fingerprint of a block of zeros, and of a block outside of the piece.
constexpr u64 largest = std::numeric_limits<u64>::max();

/// Mixes some words from all over a block. Different blocks may have the same fingerprint, which
/// only costs a needless hash.
u64 fingerprint_of(std::span<const std::byte> block) {
    if (is_all_zero(block)) return largest;
    if (block.size() < block_size) return 0;
    constexpr u64 distance = 264;  // no power of two: it meets every field of such records
    u64 mixed = 0;
    for (u64 at = 0; at + sizeof(u64) <= block_size; at += distance) {
        u64 word;
        std::memcpy(&word, &block[at], sizeof word);
        mixed = (mixed ^ word) * 0x9e3779b97f4a7c15;
        mixed ^= mixed >> 32;
    }
    return std::min(mixed, largest - 1);
}

}  // namespace

u64 find_anchors(std::span<const std::byte> piece, std::span<u32, anchored_blocks_max> anchors) {
    WARREN_CHECK(piece.size() <= anchored_blocks_max * block_size);
    // Padded on either side with blocks that are outside of the piece.
    std::array<u64, anchored_blocks_max + 2 * row_rest> prints;
    prints.fill(largest);
    u64 blocks = 0;
    for (u64 at = 0; at < piece.size(); at += block_size, ++blocks)
        prints[row_rest + blocks] =
            fingerprint_of(piece.subspan(at, std::min(block_size, piece.size() - at)));
    u64 count = 0;
    for (u32 i = 0; i < blocks; ++i) {
        const u64* const own = &prints[row_rest + i];
        if (*own == largest) continue;
        u64 before = 0;
        while (before < row_rest && own[-1 - static_cast<i64>(before)] >= *own)
            ++before;
        u64 behind = 0;
        while (before + behind < row_rest && own[1 + behind] >= *own)
            ++behind;
        if (before + behind == row_rest) anchors[count++] = i;
    }
    return count;
}

}  // namespace warren
