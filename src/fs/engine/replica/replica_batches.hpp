// SPDX-License-Identifier: Apache-2.0
// Batches of items on the image of a replica, as ItemBatches of one call for many items. Each
// window runs while nothing applies to the Store, and what it has changed in the image is adopted
// at once.
//
// Invariant: a window is carried out in the Store and in the image, or in neither. After a failure
// of the device, no further one is run.
#pragma once

#include <mutex>

#include "fs/engine/bulk_commands.hpp"
#include "fs/engine/replica/image_batch.hpp"
#include "fs/engine/replica/replica.hpp"

namespace warren {

class TakenRoom;

class ReplicaBatches final : public ItemBatches {
 public:
    /// Requires: all outlive this. `turn` is for the batch, of which there is one. `may_load`: see
    /// Replica::read().
    ReplicaBatches(const core::Store& store, Replica& replica, ImageBatch& batch, std::mutex& turn,
                   const Replica::ForEach& for_each, bool may_load)
        : store_(store),
          replica_(replica),
          batch_(batch),
          turn_(turn),
          for_each_(for_each),
          may_load_(may_load) {}

    Result<ops::BatchMemory> open_batch(const ops::BatchShape& shape) override;
    void send_batch(const ops::BatchPart& part) override { batch_.send(part); }
    Errc run_batch(const ops::BatchHeader& header, ops::BatchWindow& window) override;
    void close_batch() override;

    /// How many windows have run.
    u64 windows() const { return windows_; }
    /// Errc::ok, or the error with which the device or the image's memory has failed.
    Errc failure() const { return failure_; }

 private:
    Errc run_window(const ops::BatchHeader& header, ops::BatchWindow& window);
    Errc run_on(ReplicaMemory& memory, const TakenRoom& room, const ops::BatchHeader& header,
                ops::BatchWindow& window, Errc& status) const;
    Errc settle(Errc status, const ops::BatchWindow& window, bool is_short_of_memory) const;

    const core::Store& store_;
    Replica& replica_;
    ImageBatch& batch_;
    std::mutex& turn_;
    const Replica::ForEach& for_each_;
    const bool may_load_;
    ops::BatchShape shape_;
    u64 blocks_wanted_ = 0;  // of the next window, about
    u64 windows_ = 0;
    Errc failure_ = Errc::ok;
};

}  // namespace warren
