// SPDX-License-Identifier: Apache-2.0
// The memory for rebuilds is allocated by the first one and then kept.
#include "fs/engine/cuda/launch/directory_packing.hpp"

namespace warren::cuda_engine {

Errc DirectoryPacking::rebuild(const core::Store& store, BulkHost& host,
                               const core::Credentials& caller, Handle directory, u64 blocks) {
    if (rebuild_ == nullptr) {
        auto made = std::make_unique<DirectoryRebuild>();
        WARREN_TRY(made->open());
        rebuild_ = std::move(made);
    }
    const Errc code = rebuild_->rebuild(store, caller, directory, blocks, host);
    if (code == Errc::io && !rebuild_->is_sound()) {
        is_sound_.store(false, std::memory_order_relaxed);
    }
    return code;
}

}  // namespace warren::cuda_engine
