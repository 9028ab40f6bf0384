// SPDX-License-Identifier: Apache-2.0
// Runs batches of items (fs/bulk/batch/) over the image of a replica.
#pragma once

#include "fs/bulk/batch/batch.hpp"
#include "fs/core/store.hpp"
#include "warren/result.hpp"

namespace warren {

/// One batch at a time. Errc::io: the device has failed.
class ImageBatch {
 public:
    virtual ~ImageBatch() = default;

    /// See ItemBatches. Errc::no_space: there is no memory for it now.
    virtual Result<ops::BatchMemory> open(const ops::BatchShape& shape) = 0;
    virtual void send(const ops::BatchPart& part) = 0;
    /// Runs the window once, on an image that ReplicaMemory::open_run() has prepared. `status` is
    /// the result, as of ItemBatches::run_batch().
    virtual Errc run(const core::Store& image, const ops::BatchHeader& header,
                     ops::BatchWindow& window, Errc& status) = 0;
    virtual void close() = 0;
};

}  // namespace warren
