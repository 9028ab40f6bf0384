// SPDX-License-Identifier: Apache-2.0
// Batches (fs/bulk/batch/batch_run.hpp) on the host: the phases that a GPU runs by thousands of
// threads run here in loops, for tests of what they do.
//
// Invariant: a phase runs its parts from the last to the first or from the first to the last, in
// turns: their order must not matter.
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
    /// Requires: all items were sent, each once, as a device would need it.
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
