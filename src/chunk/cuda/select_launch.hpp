// SPDX-License-Identifier: Apache-2.0
// Choosing the cuts on the device. The stretch is divided into segments of some chunks, a thread
// walks each from a guess, and then each begins again where the one before it ended, until nothing
// changes: then every segment began at a cut, since the first one did. Chains of chunks meet after
// a few, so that takes a few rounds; where it takes more, the host chooses.
//
// Invariant: what is called chosen is what the serial rule chooses.
#pragma once

#include "chunk/cuda/scan_launch.hpp"

namespace warren::chunk::cuda {

/// Where the stream stands; of the device.
struct SelectState {
    i64 start;     // of the open chunk
    u32 is_known;  // 0: the host chooses from here on
};

/// What came out for one stretch; of the host.
struct SelectOutcome {
    u32 is_chosen;
    u32 ends;
    u32 candidates;
};

/// Memory for the choice in stretches of up to `most_bytes`.
struct SelectResult {
    gpu::DeviceBuffer<i64> starts;    // of each segment: where its first chunk begins
    gpu::DeviceBuffer<i64> exits;     // and where its last one ends
    gpu::DeviceBuffer<u32> counts;    // of chunks that end in it, then the sums of those before
    gpu::DeviceBuffer<u32> ends;      // counted from the stretch's beginning
    gpu::DeviceBuffer<u32> progress;  // the sum of all counts, then what each round changed
    gpu::PinnedBuffer<u32> host_ends;
    gpu::PinnedBuffer<SelectOutcome> outcome;

    Errc allocate(const Rule& rule, u64 most_bytes);
};

/// Whether there is a choice on the device for the rule: where a cut is the end of its window, and
/// fastcdc.
bool has_selection(const Rule& rule);

/// Queues the beginning of a stream: its first chunk begins at 0.
Errc queue_start(SelectState* state, const gpu::Stream& stream);

/// A stretch of a stream: [base, base + count), of which the stream has `stream_bytes` in all.
struct SelectStretch {
    const u8* bytes;
    u64 base;
    u64 count;
    u64 stream_bytes;
};

/// Queues the choice among the candidates that queue_list() has listed in `scan.device_list`.
Errc queue_selection(const DeviceRule& rule, const SelectStretch& stretch, const ScanResult& scan,
                     const SelectResult& result, SelectState* state, const gpu::Stream& stream);

}  // namespace warren::chunk::cuda
