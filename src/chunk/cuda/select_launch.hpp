// SPDX-License-Identifier: Apache-2.0
// Selects the cuts on the device. The stretch is divided into segments of some chunks, and one
// thread follows a chain of chunks in each from a guess. Then each segment is followed again from
// where the previous one ended, until nothing changes: since the first segment began at a cut,
// every segment then does. Chains of chunks meet after a few chunks, so this takes a few rounds,
// and each follows a chain only until it meets the previous one. If it takes more rounds, the host
// selects the cuts.
//
// Invariant: if is_chosen is set, the cuts are those of the serial rule.
#pragma once

#include "chunk/cuda/scan_launch.hpp"

namespace warren::chunk::cuda {

/// The position in the stream; in device memory.
struct SelectState {
    i64 start;     // of the current chunk
    u32 is_known;  // 0: the host selects from here on
};

/// The result for one stretch, for the host.
struct SelectOutcome {
    u32 is_chosen;
    u32 ends;
    u32 candidates;
};

/// The chain of a segment. Its ends are the first `own` of the segment's part of `ends`, followed
/// by those of the `guessed` in its part of `guesses` after the first `passed`.
struct SegmentChain {
    i64 start;  // of its first chunk
    u32 guessed;
    u32 own;
    u32 passed;
};

/// The progress of the selection; in device memory.
struct SelectProgress {
    u32 unsettled;  // segments that begin elsewhere than the previous one ends
    u32 is_chosen;
    u32 ends;
};

/// Memory for the selection in stretches of up to `most_bytes`. Ends are relative to the start of
/// the stretch, and each segment has room for as many as the rule's minimum allows.
struct SelectResult {
    gpu::DeviceBuffer<SegmentChain> chains;
    gpu::DeviceBuffer<i64> exits;      // per segment: where its last chunk ends
    gpu::DeviceBuffer<u32> counts;     // chunks that end in each, then prefix sums
    gpu::DeviceBuffer<u32> guesses;    // the ends found from a guess
    gpu::DeviceBuffer<u32> ends;       // those found from where the previous segment ends
    u32 most_ends = 0;                 // capacity of `guesses` and `ends` per segment
    gpu::DeviceBuffer<u32> unsettled;  // segments, in two lists that are used in turn
    gpu::DeviceBuffer<SelectProgress> progress;
    gpu::DeviceBuffer<u8> heads;  // fastcdc: per candidate
    gpu::PinnedBuffer<u32> host_ends;
    gpu::PinnedBuffer<SelectOutcome> outcome;

    Errc allocate(const Rule& rule, u64 most_bytes);
};

/// Whether cuts can be selected on the device for the rule: those where a cut is the end of its
/// window, and fastcdc, with a minimum of at least 64 bytes.
bool has_selection(const Rule& rule);

/// Queues the start of a stream, whose first chunk begins at 0.
Errc queue_start(SelectState* state, const gpu::Stream& stream);

/// A stretch of a stream: [base, base + count); the stream has `stream_bytes` in total.
struct SelectStretch {
    const u8* bytes;
    u64 base;
    u64 count;
    u64 stream_bytes;
};

/// Queues the selection among the candidates that queue_list() has written to `scan.device_list`.
Errc queue_selection(const DeviceRule& rule, const SelectStretch& stretch, const ScanResult& scan,
                     const SelectResult& result, SelectState* state, const gpu::Stream& stream);

}  // namespace warren::chunk::cuda
