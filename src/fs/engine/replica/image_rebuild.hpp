// SPDX-License-Identifier: Apache-2.0
// Packs directories (fs/bulk/rebuild/) in the image of a replica.
#pragma once

#include "fs/bulk/rebuild/directory_rebuild_work.hpp"
#include "fs/core/store.hpp"
#include "warren/result.hpp"

namespace warren {

/// One directory at a time. Errc::io or Errc::no_memory: the device has failed.
class ImageRebuild {
 public:
    virtual ~ImageRebuild() = default;

    /// Makes room for a tree of `blocks` blocks. It may be called again, for a larger one.
    /// Errc::no_space: there is no memory for it now.
    virtual Errc open(u64 blocks) = 0;
    /// Runs all workers on one window, on an image that ReplicaMemory::open_run() has prepared.
    virtual Errc run(const core::Store& image, const core::Credentials& caller, Handle directory,
                     const bulk::RebuildWindows& windows) = 0;
    /// The result of the last window.
    virtual const bulk::RebuildState& report() const = 0;
    virtual void close() = 0;
};

}  // namespace warren
