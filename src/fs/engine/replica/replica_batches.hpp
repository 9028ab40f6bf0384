// SPDX-License-Identifier: Apache-2.0
// Batches of items on the image of a replica, as ItemBatches of one call for many items. Each
// window is a run (image_runs.hpp).
#pragma once

#include <array>
#include <functional>
#include <mutex>
#include <utility>

#include "fs/engine/bulk_commands.hpp"
#include "fs/engine/replica/image_batch.hpp"
#include "fs/engine/replica/image_runs.hpp"

namespace warren {

class ReplicaBatches final : public ItemBatches {
 public:
    /// Requires: all outlive this. `turn` is for both batches.
    ReplicaBatches(ImageRuns& runs, ImageBatch& one, ImageBatch& other, std::mutex& turn)
        : runs_(runs), batches_{{{one, {}}, {other, {}}}}, turn_(turn) {}

    Result<ops::BatchMemory> open_batch(const ops::BatchShape& shape) override;
    void send_batch(const ops::BatchPart& part) override { last().batch.send(part); }
    Errc run_batch(const ops::BatchHeader& header, ops::BatchWindow& window) override;
    void close_batch() override;
    bool call_beside(std::function<void()> work) override {
        beside_ = std::move(work);
        return true;
    }

 private:
    struct Open {
        ImageBatch& batch;
        ops::BatchShape shape;
    };

    Open& first() { return batches_[first_]; }
    Open& last() { return batches_[(first_ + open_ - 1) % batches_.size()]; }
    Errc run_window(const ops::BatchHeader& header, ops::BatchWindow& window);
    Errc settle(Errc status, const ops::BatchWindow& window) const;

    ImageRuns& runs_;
    std::array<Open, 2> batches_;
    std::size_t first_ = 0;  // of the open ones
    std::size_t open_ = 0;   // how many
    std::mutex& turn_;       // held while one is open
    std::function<void()> beside_;
    u64 blocks_wanted_ = 0;  // of the next window, about
};

}  // namespace warren
