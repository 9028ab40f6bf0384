// SPDX-License-Identifier: Apache-2.0
// Batches of items on the image of a replica, as ItemBatches of one call for many items. Each
// window is a run (image_runs.hpp).
#pragma once

#include <mutex>

#include "fs/engine/bulk_commands.hpp"
#include "fs/engine/replica/image_batch.hpp"
#include "fs/engine/replica/image_runs.hpp"

namespace warren {

class ReplicaBatches final : public ItemBatches {
 public:
    /// Requires: all outlive this. `turn` is for the batch, of which there is one.
    ReplicaBatches(ImageRuns& runs, ImageBatch& batch, std::mutex& turn)
        : runs_(runs), batch_(batch), turn_(turn) {}

    Result<ops::BatchMemory> open_batch(const ops::BatchShape& shape) override;
    void send_batch(const ops::BatchPart& part) override { batch_.send(part); }
    Errc run_batch(const ops::BatchHeader& header, ops::BatchWindow& window) override;
    void close_batch() override;

 private:
    Errc run_window(const ops::BatchHeader& header, ops::BatchWindow& window);
    Errc settle(Errc status, const ops::BatchWindow& window) const;

    ImageRuns& runs_;
    ImageBatch& batch_;
    std::mutex& turn_;
    ops::BatchShape shape_;
    u64 blocks_wanted_ = 0;  // of the next window, about
};

}  // namespace warren
