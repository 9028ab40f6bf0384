// SPDX-License-Identifier: Apache-2.0
// The kernel that puts a metadata block into a Store in device memory. All pointers are device
// pointers; those to pinned host memory are valid as such.
#pragma once

#include <cuda_runtime_api.h>

#include "fs/core/store.hpp"

namespace warren::cuda_engine {

/// Fills the block at `place` from `from` and makes it resident, unless it is already.
Errc publish_block(const core::Store& store, u64 place, const format::Block* from,
                   cudaStream_t stream);

}  // namespace warren::cuda_engine
