// SPDX-License-Identifier: Apache-2.0
// Many short copies from pinned host memory in one launch: each queued alone would take longer than
// its bytes need on the bus.
#pragma once

#include <span>

#include "base/copy_piece.hpp"
#include "gpu/stream.hpp"

namespace warren::gpu {

/// A piece's `from` is a multiple of this.
inline constexpr u64 gather_alignment = 16;

/// Queues the copies. Requires: `pieces` and what they are copied from are in pinned host memory,
/// and stay as they are until the copies have ended.
Errc gather(std::span<const CopyPiece> pieces, const Stream& stream);

}  // namespace warren::gpu
