// SPDX-License-Identifier: Apache-2.0
// Runs batches of commands by warps on a Store in device memory. All pointers, also those in the
// commands, are valid on the device.
//
// Invariant: a command whose reply is a retry reason (Errc from 4096 on) has changed nothing. The
// host serves the retry reason and sends the command again.
#pragma once

#include <cuda_runtime_api.h>

#include "fs/core/store.hpp"
#include "fs/ops/command.hpp"

namespace warren::cuda_engine {

/// Launches a kernel in `stream` that runs `count` commands, each by one warp, with `blocks` *
/// `warps_per_block` warps (at most 8 a block). The commands run in any order and concurrently.
/// Errc::io if the launch failed.
Errc launch_batch(const core::Store& store, const ops::Command* commands, ops::Reply* replies,
                  u32 count, u32 blocks, u32 warps_per_block, cudaStream_t stream);

}  // namespace warren::cuda_engine
