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
    /// Whether there is a kernel for the rule: for all but rabin with another window than 48 or 64
    /// bytes or a polynomial below degree 40, and fastcdc whose masks have too few bits in common.
    static bool has_kernel(const Rule& rule);
    /// Errc::not_supported without a kernel.
    Errc open(const Rule& rule, const gpu::Stream& stream);

    const Rule& rule() const { return rule_; }
    /// Gear's and fastcdc's are moved up as far as the highest bit of a mask allows, and so are the
    /// hashes that they make: masks whose bits span 32 lie in the high half then.
    const u64* entries() const { return entries_.data(); }
    /// A mask or value of the rule, to be held against such a hash.
    u64 raised(u64 mask) const { return mask << raise_; }
    const u32* buzhash_entries() const { return buzhash_entries_.data(); }
    u32 multiprocessors() const { return multiprocessors_; }
    /// How many bytes before a stretch its windows reach, a multiple of 64.
    u64 reach_bytes() const { return (rule_.window_bytes + 63) / 64 * 64; }

 private:
    Rule rule_;
    u32 multiprocessors_ = 0;
    u32 raise_ = 0;
    gpu::DeviceBuffer<u64> entries_;
    gpu::DeviceBuffer<u32> buzhash_entries_;
};

/// How many candidates a list of up to `most_bytes` has room for.
u64 most_listed(u64 most_bytes);

/// Where a scan of up to `most_bytes` puts what it finds.
struct ScanResult {
    gpu::DeviceBuffer<u64> bits;         // see bit_places()
    gpu::DeviceBuffer<u32> tile_counts;  // then where each tile's part of the list begins
    gpu::DeviceBuffer<u32> total;        // of candidates; if it is above the list's, see bits
    gpu::DeviceBuffer<u32> device_list;  // for the choice on the device
    gpu::PinnedBuffer<u32> list;         // for the choice on the host
    gpu::PinnedBuffer<u32> count;        // the total, for the host
    bool is_for_device = false;          // which of the lists is written

    Errc allocate(const Rule& rule, u64 most_bytes, bool for_device);
};

/// Bytes in device memory, below 4 GiB (1 GiB for fastcdc), aligned to 16, that are at `position`
/// in their stream. From there on the DeviceRule's reach_bytes() before them are readable.
struct ScanStretch {
    const u8* bytes;
    u64 count;
    u64 position;
};

/// What bit i of a stretch's bitmap stands for: the window that ends `first_end + i * stride` from
/// its beginning.
struct BitPlaces {
    u64 first_end = 1;
    u64 stride = 1;
    u64 count = 0;
};
BitPlaces bit_places(const Rule& rule, u64 position, u64 count);

/// Queues the scan of a stretch, and queue_list().
Errc queue_scan(const DeviceRule& rule, const ScanStretch& stretch, const ScanResult& result,
                const gpu::Stream& stream);

/// Queues the last step: from the bitmap to the list of ends, counted from the stretch's beginning,
/// with the flags of select.hpp for fastcdc.
Errc queue_list(const DeviceRule& rule, const ScanStretch& stretch, const ScanResult& result,
                const gpu::Stream& stream);

inline constexpr u32 candidate_threads = 256;  // of a block that looks at windows of candidates
/// How many such blocks there are for a stretch of so many bytes.
u32 candidate_blocks(const DeviceRule& rule, u64 bytes);

/// Queues the replacing of numbers by the sums of those before them.
Errc queue_sums(u32* numbers, u32 count, u32* total, const gpu::Stream& stream);

}  // namespace warren::chunk::cuda
