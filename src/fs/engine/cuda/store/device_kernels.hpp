// SPDX-License-Identifier: Apache-2.0
// Kernels that move a volume's metadata between the host and a Store in device memory. All pointers
// are device pointers; those to pinned host memory are valid as such.
#pragma once

#include <cuda_runtime_api.h>

#include "fs/core/store.hpp"

namespace warren::cuda_engine {

/// Writes the places of all dirty metadata blocks below frame `frames` to `places`, in any order
/// and at most `capacity` of them, and adds their number to `count`. Blocks of the frame table are
/// left out, because the table is copied as an array.
Errc list_dirty(const core::Store& store, u64 frames, u64 table_bytes, u64* places, u64 capacity,
                u64* count, cudaStream_t stream);

/// Copies the `count` blocks at `places` to the array `to`.
Errc gather_blocks(const core::Store& store, const u64* places, u64 count, format::Block* to,
                   cudaStream_t stream);

/// Fills the block at `place` from `from` and makes it resident, unless it is already.
Errc publish_block(const core::Store& store, u64 place, const format::Block* from,
                   cudaStream_t stream);

}  // namespace warren::cuda_engine
