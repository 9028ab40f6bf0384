// SPDX-License-Identifier: Apache-2.0
// Packs directories in an image in a GPU's memory, by the kernel of the CUDA engine. What a rebuild
// has allocated is kept for the next one, until others need it.
#pragma once

#include "base/idle_list.hpp"
#include "base/memory_budget.hpp"
#include "fs/engine/cuda/launch/directory_rebuild.hpp"
#include "fs/engine/replica/image_rebuild.hpp"

namespace warren::cuda_engine {

class DeviceRebuild : public ImageRebuild {
 public:
    /// Requires: both outlive this, and `device` does not change while a rebuild is open.
    DeviceRebuild(MemoryBudget& budget, const int& device) : budget_(budget), device_(device) {}

    Errc open(u64 blocks) override;
    Errc run(const core::Store& image, const core::Credentials& caller, Handle directory,
             const RebuildWindows& windows) override;
    const RebuildState& report() const override { return open_->report(); }
    void close() override { idle_.keep(std::move(open_)); }

    /// Frees the memory that no rebuild uses now. By any thread, on this device.
    void drop_idle() { idle_.drop(); }

 private:
    MemoryBudget& budget_;
    const int& device_;
    u64 tree_blocks_ = 0;
    std::unique_ptr<DirectoryRebuild> open_;
    IdleList<DirectoryRebuild> idle_;
};

}  // namespace warren::cuda_engine
