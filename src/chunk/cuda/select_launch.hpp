// SPDX-License-Identifier: Apache-2.0
// Choosing the cuts on the device. The stretch is divided into segments of some chunks, and a
// thread walks each from a guess. Then each segment is walked again from where the one before it
// ended, until nothing changes: since the first segment began at a cut, every segment did. Chains
// of chunks meet after a few, so that takes a few rounds, each of which follows a chain only until
// it meets the previous one. If it takes more rounds, the host chooses.
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

/// The result for one stretch, for the host.
struct SelectOutcome {
    u32 is_chosen;
    u32 ends;
    u32 candidates;
};

/// What is known of a segment: its ends are the first `own` of its part of `ends`, and what follows
/// the first `passed` of its part of `guesses`, of which there are `guessed`.
struct SegmentChain {
    i64 start;  // of its first chunk
    u32 guessed;
    u32 own;
    u32 passed;
};

/// How far the choice has come; of the device.
struct SelectProgress {
    u32 unsettled;  // segments that begin where the one before them does not end any more
    u32 is_chosen;
    u32 ends;
};

/// Memory for the choice in stretches of up to `most_bytes`. Ends are counted from the stretch's
/// beginning, and each segment has room for as many as the rule's minimum allows.
struct SelectResult {
    gpu::DeviceBuffer<SegmentChain> chains;
    gpu::DeviceBuffer<i64> exits;      // of each segment: where its last chunk ends
    gpu::DeviceBuffer<u32> counts;     // of chunks that end in it, then the sums of those before
    gpu::DeviceBuffer<u32> guesses;    // the ends found from a guess
    gpu::DeviceBuffer<u32> ends;       // those found from where the segment before ends
    u32 most_ends = 0;                 // of a segment: the room in both for each
    gpu::DeviceBuffer<u32> unsettled;  // segments, in two lists that take turns
    gpu::DeviceBuffer<SelectProgress> progress;
    gpu::DeviceBuffer<u8> heads;  // fastcdc: of each candidate
    gpu::PinnedBuffer<u32> host_ends;
    gpu::PinnedBuffer<SelectOutcome> outcome;

    Errc allocate(const Rule& rule, u64 most_bytes);
};

/// Whether there is a choice on the device for the rule: where a cut is the end of its window, and
/// fastcdc, with a minimum of 64 bytes or more.
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
