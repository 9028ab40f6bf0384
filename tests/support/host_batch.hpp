// SPDX-License-Identifier: Apache-2.0
// Runs batches (fs/bulk/batch/batch_run.hpp) on the host: the phases that a GPU runs with thousands
// of threads run here in loops, for tests of their results.
//
// Invariant: phases alternately run their parts in ascending and descending order, since the order
// must not matter.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "fs/engine/engine.hpp"

namespace warren {

class HostBatch {
 public:
    Result<ops::BatchMemory> open(const ops::BatchShape& shape);
    /// By any thread.
    void send(const ops::BatchPart& part);
    /// Requires: each item was sent exactly once, as a device would need it.
    Errc run(const core::Store& store, const ops::BatchHeader& header, ops::BatchWindow& window);

 private:
    template <class T>
    T* take(u64 count);
    void expect_all_sent();

    ops::Batch batch_;
    std::mutex sent_mutex_;
    std::vector<ops::BatchPart> sent_;  // since open()
    ops::BatchMemory memory_;
    std::vector<std::unique_ptr<std::byte[]>> arrays_;
};

}  // namespace warren
