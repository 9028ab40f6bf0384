// SPDX-License-Identifier: Apache-2.0
// Batches (fs/ops/batch_run.hpp) on the host: the phases that a GPU runs by thousands of threads
// run here in loops, for tests of what they do.
//
// Invariant: a phase runs its parts from the last to the first or from the first to the last, in
// turns: their order must not matter.
#pragma once

#include <memory>
#include <vector>

#include "fs/engine/engine.hpp"

namespace warren {

class HostBatch {
 public:
    Result<ops::BatchMemory> open(const ops::BatchShape& shape);
    Errc run(const core::Store& store, const ops::BatchHeader& header, ops::BatchWindow& window);

 private:
    template <class T>
    T* take(u64 count);

    ops::Batch batch_;
    ops::BatchMemory memory_;
    std::vector<std::unique_ptr<std::byte[]>> arrays_;
};

}  // namespace warren
