// SPDX-License-Identifier: Apache-2.0
// Rebuilds of directories on a GPU: the host's side. One kernel goes through all phases; the host
// brings blocks that are missing, makes room, and starts it again.
//
// Invariant: when the kernel ends it holds neither barrier nor lock, and the directory's tree is
// the old one or the new one, or new up to where the last window ended.
#pragma once

#include "fs/bulk/rebuild/directory_rebuild_room.hpp"
#include "fs/core/store.hpp"
#include "fs/engine/cuda/bulk_host.hpp"
#include "gpu/buffer.hpp"
#include "gpu/stream.hpp"

namespace warren::cuda_engine {

using namespace warren::bulk;

struct RebuildShape {
    u32 blocks = 132;  // fewer where the device cannot hold all of them at once
    u32 warps_per_block = 8;
    u64 tree_blocks = 1024;  // to begin with; grows
};

class DirectoryRebuild {
 public:
    Errc open(const RebuildShape& shape = {});

    /// Packs the tree of `directory`, of about `tree_blocks` blocks, for a caller who may write
    /// there: at once if one commit can hold it, else in windows with commits between them.
    /// Errc::not_supported if that takes smaller steps than this. `store` points to device memory,
    /// `caller` to the host's.
    Errc rebuild(const core::Store& store, const core::Credentials& caller, Handle directory,
                 u64 tree_blocks, BulkHost& host);

    /// Whether the device has done all that it was asked for.
    bool is_sound() const { return stream_.wait() == Errc::ok; }
    /// Milliseconds that the last kernel took, by the device's clock.
    float kernel_ms() const;

 private:
    Errc fit_device(u32 shared_bytes);
    Errc run(const core::Store& store, const core::Credentials& caller, Handle directory,
             u32 blocks, const RebuildWindows& windows);

    RebuildShape shape_;
    gpu::Stream stream_;
    gpu::Event begin_;
    gpu::Event end_;
    RebuildRoom<gpu::DeviceBuffer> room_;
    gpu::DeviceBuffer<u32> groups_;
    gpu::PinnedBuffer<RebuildState> report_;
};

}  // namespace warren::cuda_engine
