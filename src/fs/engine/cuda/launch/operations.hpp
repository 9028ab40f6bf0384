// SPDX-License-Identifier: Apache-2.0
// Batches of commands for warps on a Store in device memory. All pointers, those in the commands
// too, are valid on the device.
//
// Invariant: a command whose reply is a retry_reason of the engine (Errc from 4096 on) has changed
// nothing; the host serves the retry_reason and gives the command again.
#pragma once

#include <cuda_runtime_api.h>

#include "fs/core/store.hpp"
#include "fs/ops/command.hpp"

namespace warren::cuda_engine {

/// What a kernel takes of a multiprocessor.
struct KernelShape {
    int registers;
    u64 stack_bytes;  // of each lane
    int blocks_per_multiprocessor;
};

/// The kernel of launch_batch() with blocks of `warps_per_block` warps. Errc::io without a device.
Result<KernelShape> commands_kernel_shape(u32 warps_per_block);

/// Starts `count` commands in `stream`, a warp each, with `blocks` * `warps_per_block` warps (8 a
/// block at most). They may run in any order and at once. Errc::io if the launch failed.
Errc launch_batch(const core::Store& store, const ops::Command* commands, ops::Reply* replies,
                  u32 count, u32 blocks, u32 warps_per_block, cudaStream_t stream);

}  // namespace warren::cuda_engine
