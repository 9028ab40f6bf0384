// SPDX-License-Identifier: Apache-2.0
// Queues scans for candidates in device memory: the bitmap of a stretch, and from it the sorted
// list of its candidates.
//
// Invariant: no function here waits for queued work, except open() and allocate().
#pragma once

#include "gpu/buffer.hpp"
#include "gpu/stream.hpp"
#include "warren/chunk.hpp"

namespace warren::chunk::cuda {

/// A rule in device memory.
class DeviceRule {
 public:
    /// Whether there is a kernel for the rule. There is none for rabin with a window other than 48
    /// or 64 bytes or a polynomial of degree below 40, nor for fastcdc if its masks have too few
    /// bits in common.
    static bool has_kernel(const Rule& rule);
    /// Errc::not_supported: there is no kernel for the rule.
    Errc open(const Rule& rule, const gpu::Stream& stream);

    const Rule& rule() const { return rule_; }
    /// The hash table. The entries of gear and fastcdc, and so their hashes, are shifted up as far
    /// as the highest bit of a mask allows: masks whose bits span at most 32 are then in the high
    /// half.
    const u64* entries() const { return entries_.data(); }
    /// A mask or value of the rule, shifted for comparison with such a hash.
    u64 raised(u64 mask) const { return mask << raise_; }
    const u32* buzhash_entries() const { return buzhash_entries_.data(); }
    u32 multiprocessors() const { return multiprocessors_; }
    /// How many bytes before a stretch its windows reach, rounded up to a multiple of 64.
    u64 reach_bytes() const { return (rule_.window_bytes + 63) / 64 * 64; }

 private:
    Rule rule_;
    u32 multiprocessors_ = 0;
    u32 raise_ = 0;
    gpu::DeviceBuffer<u64> entries_;
    gpu::DeviceBuffer<u32> buzhash_entries_;
};

/// The capacity of the candidate list for a stretch of up to `most_bytes`.
u64 most_listed(u64 most_bytes);

/// The output of a scan of up to `most_bytes`.
struct ScanResult {
    gpu::DeviceBuffer<u64> bits;         // see bit_places()
    gpu::DeviceBuffer<u32> tile_counts;  // afterwards where each tile's part of the list begins
    gpu::DeviceBuffer<u32> total;        // of candidates; if they exceed the list, see `bits`
    gpu::DeviceBuffer<u32> device_list;  // for selection on the device
    gpu::PinnedBuffer<u32> list;         // for selection on the host
    gpu::PinnedBuffer<u32> count;        // the total, for the host
    bool is_for_device = false;          // which of the lists is written

    Errc allocate(const Rule& rule, u64 most_bytes, bool for_device);
};

/// Bytes in device memory, less than 4 GiB (1 GiB for fastcdc), aligned to 16, at `position` of
/// their stream. If `position` is not 0, reach_bytes() bytes before them are readable.
struct ScanStretch {
    const u8* bytes;
    u64 count;
    u64 position;
};

/// What bit i of a stretch's bitmap stands for: the window that ends `first_end + i * stride` bytes
/// after the start of the stretch.
struct BitPlaces {
    u64 first_end = 1;
    u64 stride = 1;
    u64 count = 0;
};
BitPlaces bit_places(const Rule& rule, u64 position, u64 count);

/// Queues the scan of a stretch, followed by queue_list().
Errc queue_scan(const DeviceRule& rule, const ScanStretch& stretch, const ScanResult& result,
                const gpu::Stream& stream);

/// Queues the last step: from the bitmap to the list of ends, relative to the start of the stretch,
/// for fastcdc with the flags of select.hpp.
Errc queue_list(const DeviceRule& rule, const ScanStretch& stretch, const ScanResult& result,
                const gpu::Stream& stream);

inline constexpr u32 candidate_threads = 256;  // per block that examines candidates
/// The number of such blocks for a stretch of `bytes` bytes.
u32 candidate_blocks(const DeviceRule& rule, u64 bytes);

/// Queues replacing numbers by the sums of the numbers before them.
Errc queue_sums(u32* numbers, u32 count, u32* total, const gpu::Stream& stream);

}  // namespace warren::chunk::cuda
