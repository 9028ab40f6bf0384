// SPDX-License-Identifier: Apache-2.0
// Scans of trees on a GPU: the host's side. A run is one kernel over all that is left to list; what
// it has found is handed to the host, which brings missing blocks and begins the next run.
//
// Invariant: the host waits for each kernel's end before it looks at the report, which the kernel
// has written into pinned memory.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "fs/bulk/scan/scan_room.hpp"
#include "fs/bulk/scan/scan_run.hpp"
#include "fs/core/store.hpp"
#include "fs/engine/cuda/bulk_host.hpp"
#include "gpu/buffer.hpp"
#include "gpu/stream.hpp"

namespace warren::cuda_engine {

using namespace warren::bulk;

/// Takes what a run has found. Meanwhile the scan touches no memory of the volume.
using TakeOutput = std::function<Errc(const ScanOutput&)>;

struct ScanShape {
    u32 blocks = 396;
    u32 warps_per_block = 8;
    u64 queue_capacity = u64{1} << 18;
    u64 output_bytes = 256 * mib;
    u64 directories = u64{1} << 18;  // to begin with; grows
};

class TreeScan {
 public:
    Errc open(const ScanShape& shape = {});

    /// Scans what is below the directory `root`; `store` points to device memory, `plan` and its
    /// credentials to the host's. The first error met is the answer, and what was found before it
    /// may have been taken.
    Errc scan(const core::Store& store, const ScanPlan& plan, Handle root, const TakeOutput& take,
              BulkHost& host);
    /// The sums of the last scan, which measured.
    Errc fetch_sums(std::vector<ScanSum>& sums);

    /// Whether the device has done all that it was asked for.
    bool is_sound() const { return stream_.wait() == Errc::ok; }
    u32 runs() const { return runs_; }
    /// Milliseconds that the kernels of the last run took, by the device's clock.
    float kernel_ms() const;

 private:
    class Site;
    Errc make_room(u64 directories, u64 frames);
    Errc begin(const ScanPlan& plan);
    Errc run(const core::Store& store, Handle root, bool is_first);
    Errc fetch_output(const TakeOutput& take);
    Errc send_output(u64 words);
    u64 workers() const { return u64{shape_.blocks} * shape_.warps_per_block; }

    ScanShape shape_;
    gpu::Stream stream_;
    gpu::Event begin_;
    gpu::Event end_;
    ScanRoom<gpu::DeviceBuffer> room_;
    gpu::DeviceBuffer<u32> groups_;
    gpu::PinnedBuffer<ScanReport> report_;
    gpu::PinnedBuffer<u64> host_output_;
    gpu::PinnedBuffer<BundlePlace> host_bundles_;
    gpu::PinnedBuffer<ScanSum> host_sums_;
    std::deque<gpu::Event> arrived_;  // pieces of the output
    ScanPlan plan_;
    u32 runs_ = 0;
};

}  // namespace warren::cuda_engine
