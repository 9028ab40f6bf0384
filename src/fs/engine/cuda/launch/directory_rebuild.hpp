// SPDX-License-Identifier: Apache-2.0
// Rebuilds of directories on a GPU: the host's side. One kernel runs all phases. If it misses
// blocks or lacks room, the host loads blocks or makes room and launches it again.
//
// Invariant: when the kernel ends it is not within the freeze barrier and holds no lock, and the
// directory's tree is the old one, the new one, or new up to the end of the last window.
#pragma once

#include "base/memory_budget.hpp"
#include "fs/bulk/rebuild/directory_rebuild_room.hpp"
#include "fs/core/store.hpp"
#include "fs/engine/cuda/bulk_host.hpp"
#include "gpu/buffer.hpp"
#include "gpu/stream.hpp"

namespace warren::cuda_engine {

using namespace warren::bulk;

struct RebuildShape {
    u32 blocks = 132;  // fewer if the device cannot run all of them concurrently
    u32 warps_per_block = 8;
    u64 tree_blocks = 1024;  // initial capacity; grows
};

class DirectoryRebuild {
 public:
    /// All device memory counts against `budget`, which outlives this; null: unlimited.
    explicit DirectoryRebuild(MemoryBudget* budget = nullptr) : share_(budget) {}

    Errc open(const RebuildShape& shape = {});

    /// Packs the tree of `directory`, of about `tree_blocks` blocks, if `caller` may write there:
    /// at once if one commit can hold it, else in windows with commits between them.
    /// Errc::not_supported if even a window does not fit into a commit. `store` has device
    /// pointers, `caller` host pointers.
    Errc rebuild(const core::Store& store, const core::Credentials& caller, Handle directory,
                 u64 tree_blocks, BulkHost& host);

    // The parts of a rebuild.
    /// Makes room for trees of `tree_blocks` blocks. Errc::no_space: too little is left of the
    /// budget.
    Errc make_room(u64 tree_blocks);
    /// Runs all workers on one window.
    Errc run(const core::Store& store, const core::Credentials& caller, Handle directory,
             u64 tree_blocks, const RebuildWindows& windows);
    /// The result of the last window.
    const RebuildState& report() const { return *report_.data(); }

    /// Whether all work on the device so far has succeeded.
    bool is_sound() const { return stream_.wait() == Errc::ok; }
    /// How many milliseconds the last kernel took, by the device's clock.
    float kernel_ms() const;

 private:
    Errc fit_device(u32 shared_bytes);

    MemoryShare share_;  // before the memory
    RebuildShape shape_;
    gpu::Stream stream_;
    gpu::Event begin_;
    gpu::Event end_;
    RebuildRoom<gpu::DeviceBuffer> room_;
    gpu::DeviceBuffer<u32> groups_;
    gpu::PinnedBuffer<RebuildState> report_;
};

}  // namespace warren::cuda_engine
