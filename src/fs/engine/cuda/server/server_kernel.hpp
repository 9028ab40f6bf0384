// SPDX-License-Identifier: Apache-2.0
// Starts one epoch of the resident server.
//
// Invariant: at most one epoch runs at a time; the next is started after the one before has ended.
#pragma once

#include <cuda_runtime_api.h>

#include "fs/engine/cuda/server/server_protocol.hpp"

namespace warren::cuda_engine {

/// Starts `blocks` (at most server_blocks_max) blocks of warps_per_server_block warps. The epoch
/// ends by itself. Errc::io if the launch failed.
Errc launch_epoch(const ServerArguments& arguments, u32 blocks, cudaStream_t stream);

}  // namespace warren::cuda_engine
