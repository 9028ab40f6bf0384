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
        : runs_(runs), slots_{{{one}, {other}}}, turn_(turn) {}

    Result<OpenBatch> open_batch(const ops::BatchShape& shape) override;
    void send_batch(u32 number, const ops::BatchPart& part) override {
        slots_[number].batch.send(part);
    }
    Errc run_batch(u32 number, const ops::BatchHeader& header, ops::BatchWindow& window) override;
    void close_batch(u32 number) override;
    bool call_beside(std::function<void()> work) override {
        beside_ = std::move(work);
        return true;
    }

 private:
    struct Slot {
        ImageBatch& batch;
        ops::BatchShape shape = {};
        bool is_open = false;
    };

    bool is_idle() const { return !slots_[0].is_open && !slots_[1].is_open; }
    Errc run_window(Slot& slot, const ops::BatchHeader& header, ops::BatchWindow& window);
    Errc settle(Errc status, const ops::BatchWindow& window) const;

    ImageRuns& runs_;
    std::array<Slot, 2> slots_;
    std::mutex& turn_;  // held while a batch is open
    std::function<void()> beside_;
    u64 blocks_wanted_ = 0;  // of the next window, about
};

}  // namespace warren
