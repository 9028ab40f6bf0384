// SPDX-License-Identifier: Apache-2.0
// The kernels of a commit; see fs/ops/commit_snapshot.hpp for what they do. All pointers are device
// pointers.
#pragma once

#include <cuda_runtime_api.h>

#include "fs/ops/commit_snapshot.hpp"

namespace warren::cuda_engine {

/// Has the driver load the kernels, which it else does at their first launch, while commands wait.
Errc load_commit_kernels();

/// Lists the dirty blocks and copies them into the area. The header's count says how many there
/// are: if more than fit, nothing was copied and all are dirty still. Requires: nobody applies
/// anything.
Errc launch_cut(const core::Store& store, const ops::CutArea& area, cudaStream_t stream);

/// Lets the blocks at `places` of a cut go from the meta buffer.
Errc launch_release(const core::Store& store, const u64* places, u64 count, cudaStream_t stream);

/// Lets go of what a durable commit freed: `frames`, and `empty` frames of inodes. Beside commands,
/// while no cut is taken.
Errc launch_publish(const core::Store& store, ops::CommittedFrame* frames, u64 frame_count,
                    const u64* empty, u64 empty_count, cudaStream_t stream);

}  // namespace warren::cuda_engine
