// SPDX-License-Identifier: Apache-2.0
// Scanning for candidates in device memory, as queued work: the bitmap of a stretch, and from it
// the list of its candidates in order.
//
// Invariant: nothing here waits.
#pragma once

#include "gpu/buffer.hpp"
#include "gpu/stream.hpp"
#include "warren/chunk.hpp"

namespace warren::chunk::cuda {

/// A rule on the device.
class DeviceRule {
 public:
    /// Whether there is a kernel for the rule: gear, and rabin with a window of 48 or 64 bytes and
    /// a polynomial of degree 40 or more.
    static bool has_kernel(const Rule& rule);
    /// Errc::not_supported without a kernel.
    Errc open(const Rule& rule, const gpu::Stream& stream);

    const Rule& rule() const { return rule_; }
    const u64* entries() const { return entries_.data(); }
    u32 multiprocessors() const { return multiprocessors_; }

 private:
    Rule rule_;
    u32 multiprocessors_ = 0;
    gpu::DeviceBuffer<u64> entries_;
};

/// Where a scan of up to `most_bytes` puts what it finds.
struct ScanResult {
    gpu::DeviceBuffer<u64> bits;         // bit i: a window ends behind byte i
    gpu::DeviceBuffer<u32> tile_counts;  // then where each tile's part of the list begins
    gpu::PinnedBuffer<u32> list;         // ends of windows, counted from the scan's beginning
    gpu::PinnedBuffer<u32> count;        // of candidates; if it is above list.count(), see bits

    Errc allocate(u64 most_bytes);
};

/// Queues the scan of `count` bytes of device memory, below 4 GiB; `bytes` is aligned to 16. With
/// `has_history` the 64 bytes before it belong to the stream and are readable.
Errc queue_scan(const DeviceRule& rule, const u8* bytes, u64 count, bool has_history,
                const ScanResult& result, const gpu::Stream& stream);

/// Queues the last step of queue_scan() again: from the bitmap to the list. For measurements.
Errc queue_list(u64 count, const ScanResult& result, const gpu::Stream& stream);

}  // namespace warren::chunk::cuda
