// SPDX-License-Identifier: Apache-2.0
// Errc::no_space means that only the budget is too small.
#include "fs/engine/cuda/replica/device_rebuild.hpp"

#include "gpu/device.hpp"

namespace warren::cuda_engine {

Errc DeviceRebuild::open(u64 blocks) {
    const gpu::DeviceScope device(device_);
    WARREN_TRY(device.code());
    if (open_ == nullptr) open_ = idle_.take();
    if (open_ == nullptr) {
        auto made = std::make_unique<DirectoryRebuild>(&budget_);
        WARREN_TRY(made->open());
        open_ = std::move(made);
    }
    tree_blocks_ = blocks;
    return open_->make_room(blocks);
}

Errc DeviceRebuild::run(const core::Store& image, const core::Credentials& caller, Handle directory,
                        const RebuildWindows& windows) {
    const gpu::DeviceScope device(device_);
    WARREN_TRY(device.code());
    return open_->run(image, caller, directory, tree_blocks_, windows);
}

}  // namespace warren::cuda_engine
