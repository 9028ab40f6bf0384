// SPDX-License-Identifier: Apache-2.0
// Scans of trees on a GPU: the host's side. A run is one kernel over all directories that are left
// to list. The host then takes the results, loads missed blocks and starts the next run.
//
// Invariant: the host reads the report, which is in pinned memory, only after the kernels have
// ended.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "base/memory_budget.hpp"
#include "fs/bulk/scan/scan_room.hpp"
#include "fs/bulk/scan/scan_run.hpp"
#include "fs/core/store.hpp"
#include "fs/engine/cuda/bulk_host.hpp"
#include "fs/engine/cuda/launch/table_fill.hpp"
#include "gpu/buffer.hpp"
#include "gpu/stream.hpp"

namespace warren::cuda_engine {

using namespace warren::bulk;

/// Receives the results of a run. The scan does not access the volume's memory during this call.
using TakeOutput = std::function<Errc(const ScanOutput&)>;

struct ScanShape {
    u32 blocks = 396;
    u32 warps_per_block = 8;
    u64 queue_capacity = u64{1} << 18;
    u64 output_bytes = 256 * mib;
    u64 directories = u64{1} << 18;  // initial capacity; grows
    MemoryBudget* budget = nullptr;  // of device memory, all of which counts; null: unlimited
};

class TreeScan {
 public:
    /// Errc::no_space, here and from scan(): there is too little left of the budget.
    Errc open(const ScanShape& shape = {});

    /// Scans everything below the directory `root`. `store` has device pointers, `plan` host
    /// pointers. Returns the first error; results found before it may have been passed to `take`.
    /// If `take` is empty, the results stay on the device.
    Errc scan(const core::Store& store, const ScanPlan& plan, Handle root, const TakeOutput& take,
              BulkHost& host);
    /// Makes the table of `call` of the results of its scan, which stay on the device.
    /// Errc::no_space or Errc::no_memory: there is no room for them.
    Errc fill_table(const core::Store& store, const ScanCall& call, BulkHost& host);
    /// Fetches the sums of the last scan, if its purpose was ScanPurpose::measure.
    Errc fetch_sums(std::vector<ScanSum>& sums);

    /// Whether all work on the device so far has succeeded.
    bool is_sound() const { return stream_.wait() == Errc::ok; }
    u32 runs() const { return runs_; }
    /// How many milliseconds the scan kernel of the last run took, by the device's clock.
    float kernel_ms() const;

 private:
    class Site;
    Errc make_room(u64 directories, u64 frames);
    Errc grow_output();
    Errc take_share(u64 bytes);
    Errc begin(const core::Store& store, const ScanPlan& plan);
    Errc run(const core::Store& store, Handle root, bool is_first, bool keeps_output);
    ScanRef ref() const;
    Errc fetch_output(const TakeOutput& take);
    Errc fetch_masks(const core::Store& store, const TakeOutput& take);
    Errc send_output(u64 words);
    u64 workers() const { return u64{shape_.blocks} * shape_.warps_per_block; }

    ScanShape shape_;
    std::optional<MemoryShare> share_;  // what the buffers on the device take; since open()
    gpu::Stream stream_;
    gpu::Event begin_;
    gpu::Event end_;
    ScanRoom<gpu::DeviceBuffer> room_;
    gpu::DeviceBuffer<u32> groups_;
    gpu::PinnedBuffer<ScanReport> report_;
    gpu::PinnedBuffer<u64> host_output_;
    gpu::PinnedBuffer<BundlePlace> host_bundles_;
    gpu::PinnedBuffer<ScanSum> host_sums_;
    gpu::PinnedBuffer<FrameMasks> host_masks_;
    std::deque<gpu::Event> arrived_;  // one for each segment of the output
    TableFill table_{[this](u64 bytes) { return take_share(bytes); }};
    ScanPlan plan_;
    u32 runs_ = 0;
};

}  // namespace warren::cuda_engine
