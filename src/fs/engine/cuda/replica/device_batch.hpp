// SPDX-License-Identifier: Apache-2.0
// Batches of items over an image in a GPU's memory, by the kernels of the CUDA engine. What a batch
// has allocated is kept for the next one, until others need it.
#pragma once

#include <memory>

#include "base/idle_list.hpp"
#include "base/memory_budget.hpp"
#include "fs/engine/cuda/launch/item_batch.hpp"
#include "fs/engine/replica/image_batch.hpp"

namespace warren::cuda_engine {

class DeviceBatch : public ImageBatch {
 public:
    /// Requires: both outlive this, and `device` does not change while a batch is open.
    DeviceBatch(MemoryBudget& budget, const int& device) : budget_(budget), device_(device) {}

    Result<ops::BatchMemory> open(const ops::BatchShape& shape) override;
    void send(const ops::BatchPart& part) override;
    Errc run(const core::Store& image, const ops::BatchHeader& header, ops::BatchWindow& window,
             Errc& status) override;
    void close() override { idle_.keep(std::move(open_)); }

    /// Frees the memory that no batch uses now. By any thread, on this device.
    void drop_idle() { idle_.drop(); }

 private:
    /// What batches take of the budget, and their memory.
    struct Room {
        explicit Room(MemoryBudget& budget) : share(&budget) {}
        MemoryShare share;
        ItemBatch batch;
    };

    MemoryBudget& budget_;
    const int& device_;
    std::unique_ptr<Room> open_;
    IdleList<Room> idle_;
};

}  // namespace warren::cuda_engine
