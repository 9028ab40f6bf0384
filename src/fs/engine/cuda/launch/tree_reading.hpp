// SPDX-License-Identifier: Apache-2.0
// The bulk commands of the CUDA engine that only read. All of them are scans of a tree.
//
// Invariant: kernels run while the caller's lock is held. Visitors run while it is not held: they
// may call the volume, and a commit may take place meanwhile.
#pragma once

#include <atomic>
#include <functional>

#include "base/idle_list.hpp"
#include "fs/bulk/scan/scan_answer.hpp"
#include "fs/engine/cuda/launch/tree_scan.hpp"

namespace warren::cuda_engine {

class TreeReading {
 public:
    explicit TreeReading(const ScanShape& shape = {}) : shape_(shape) {}

    /// See BulkCommands::scan().
    Errc scan(const core::Store& store, BulkHost& host, const ScanCall& call);

    /// Frees the memory of the scans that do not run.
    void drop_idle() { idle_.drop(); }

    /// False once work on the device has failed.
    bool is_sound() const { return is_sound_.load(std::memory_order_relaxed); }

 private:
    Errc run(const std::function<Errc(TreeScan& scan)>& body);
    Errc deliver(const core::Store& store, BulkHost& host, const ScanCall& call);

    const ScanShape shape_;
    std::atomic<bool> is_sound_{true};
    IdleList<TreeScan> idle_;
};

}  // namespace warren::cuda_engine
