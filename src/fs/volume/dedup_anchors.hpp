// SPDX-License-Identifier: Apache-2.0
// Which blocks of contents the index of deduplication knows: the anchors, of every eight blocks in
// a row the one with the smallest fingerprint. They depend on nothing but these blocks, so two
// files that have such a run in common have an anchor of it in common, wherever it lies in them;
// and only one block in four or five has to be hashed.
//
// Invariant: where a piece of contents ends, so do its rows of eight, and what is left of a row has
// an anchor too. So a run has its anchor however the pieces divide it.
#pragma once

#include <span>

#include "fs/format/layout.hpp"

namespace warren {

/// So many blocks in a row have an anchor among them.
inline constexpr u64 anchor_row = 8;

/// How many anchors so many blocks have, on average.
constexpr u64 anchors_among(u64 blocks) {
    return (2 * blocks + anchor_row) / (anchor_row + 1);
}

/// A piece has no more blocks; the last of them may be a part of one.
inline constexpr u64 anchored_blocks_max = 256;

/// Sets the numbers of those blocks of a piece that are anchors, in ascending order, and returns
/// how many they are. A part of a block is one; a block of zeros is none.
u64 find_anchors(std::span<const std::byte> piece, std::span<u32, anchored_blocks_max> anchors);

}  // namespace warren
