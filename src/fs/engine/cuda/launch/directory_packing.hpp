// SPDX-License-Identifier: Apache-2.0
// The rebuild command of the CUDA engine, which packs a directory's tree.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "fs/engine/cuda/launch/directory_rebuild.hpp"

namespace warren::cuda_engine {

class DirectoryPacking {
 public:
    /// See BulkCommands::rebuild(). Requires: the caller holds turn().
    Errc rebuild(const core::Store& store, BulkHost& host, const core::Credentials& caller,
                 Handle directory, u64 blocks);

    /// Serializes rebuilds. Lock it before the engine's lock, which a rebuild releases for commits.
    std::mutex& turn() { return mutex_; }
    /// False once work on the device has failed.
    bool is_sound() const { return is_sound_.load(std::memory_order_relaxed); }

 private:
    std::mutex mutex_;
    std::atomic<bool> is_sound_{true};
    std::unique_ptr<DirectoryRebuild> rebuild_;
};

}  // namespace warren::cuda_engine
