// SPDX-License-Identifier: Apache-2.0
// Chooses the blocks that the deduplication index stores, the anchors: of every eight consecutive
// blocks, the one with the smallest fingerprint (winnowing). The choice depends only on these
// blocks, so two files that contain the same run of eight blocks have an anchor in common, wherever
// the run is in them; and only about two blocks in nine are hashed.
//
// Invariant: a row of fewer than eight blocks at either end of a piece has an anchor too, so two
// files have an anchor of a run in common however pieces divide it.
#pragma once

#include <span>

#include "fs/format/layout.hpp"

namespace warren {

/// Of this many consecutive blocks, at least one is an anchor.
inline constexpr u64 anchor_row = 8;

/// The expected number of anchors among `blocks` blocks of random data.
constexpr u64 anchors_among(u64 blocks) {
    return (2 * blocks + anchor_row) / (anchor_row + 1);
}

/// The maximum number of blocks in a piece. The last one may be incomplete.
inline constexpr u64 anchored_blocks_max = 256;

/// Stores the indices of the anchors of `piece` in ascending order and returns their number. An
/// incomplete block is always an anchor, a block of zeros never.
u64 find_anchors(std::span<const std::byte> piece, std::span<u32, anchored_blocks_max> anchors);

}  // namespace warren
