// SPDX-License-Identifier: Apache-2.0
// The kernels of a commit; see fs/ops/commit_snapshot.hpp for what they do. All pointers are device
// pointers.
#pragma once

#include <cuda_runtime_api.h>

#include "fs/ops/commit_snapshot.hpp"

namespace warren::cuda_engine {

/// Makes the driver load the kernels. Otherwise it would do so at the first launch, while commands
/// wait.
Errc load_commit_kernels();

/// Lists the dirty blocks in the area, which are still dirty. Requires: no operation applies.
Errc launch_list(const core::Store& store, const ops::CutArea& area, cudaStream_t stream);

/// Lists the dirty blocks and copies them into the area. The header's count is their number; if
/// they do not fit, nothing was copied and all are still dirty. Requires: no operation applies.
Errc launch_cut(const core::Store& store, const ops::CutArea& area, cudaStream_t stream);

/// Lets the buffer cache evict the blocks at `places`, which a snapshot has pinned.
Errc launch_release(const core::Store& store, const u64* places, u64 count, cudaStream_t stream);

/// Returns the blocks that a durable commit freed to the allocator: in `frames`, and the inode
/// frames in `empty`. Commands may run meanwhile, but no snapshot may be taken.
Errc launch_publish(const core::Store& store, ops::CommittedFrame* frames, u64 frame_count,
                    const u64* empty, u64 empty_count, cudaStream_t stream);

}  // namespace warren::cuda_engine
