// SPDX-License-Identifier: Apache-2.0
// The steps of the selection, one kernel each.
#include "chunk/cuda/select_launch.hpp"

#include <algorithm>
#include <bit>

#include "chunk/cuda/select_kernel.cuh"
#include "gpu/failure.hpp"

namespace warren::chunk::cuda {

namespace {

// Small blocks, so that all multiprocessors get some: threads wait for memory most of the time.
constexpr u32 threads = 32;
constexpr u32 copy_threads = 256;
// Chunks shorter than this are so many that the host selects them.
constexpr u64 least_minimum = 64;

/// The number of tiles in a segment, which has room for at least two chunks of maximum length.
u32 segment_tiles(const Rule& rule) {
    const u64 tiles = std::max<u64>(1, (2 * rule.maximum_bytes) >> tile_shift);
    return static_cast<u32>(std::bit_ceil(std::min<u64>(tiles, 1u << 14)));
}

u32 tiles_of(u64 bytes) {
    return static_cast<u32>((bytes + (1u << tile_shift) - 1) >> tile_shift);
}

u32 segments_of(const Rule& rule, u64 bytes) {
    const u32 each = segment_tiles(rule);
    return (tiles_of(bytes) + each - 1) / each;
}

/// The least distance between ends; fastcdc's minimum is rounded down to an even number.
u64 least_distance(const Rule& rule) {
    return rule.minimum_bytes / 2 * 2;
}

template <bool is_fastcdc>
Errc queue_steps(const SelectWork& work, const SelectResult& result, const gpu::Stream& stream) {
    const u32 blocks = (work.segments + threads - 1) / threads;
    guess_segments<is_fastcdc><<<blocks, threads, 0, stream.get()>>>(work);
    correct_segments<is_fastcdc><<<blocks, threads, 0, stream.get()>>>(work);
    settle_segments<is_fastcdc><<<1, settle_threads, 0, stream.get()>>>(work);
    WARREN_TRY(queue_sums(work.counts, work.segments, &work.progress->ends, stream));
    const u32 copy_blocks = (work.segments * 32 + copy_threads - 1) / copy_threads;
    hand_over<<<copy_blocks, copy_threads, 0, stream.get()>>>(work, result.host_ends.data(),
                                                              result.outcome.data());
    return gpu::check(cudaGetLastError(), "hand_over");
}

__global__ void start_stream(SelectState* state) {
    *state = {0, 1};
}

}  // namespace

bool has_selection(const Rule& rule) {
    return rule.minimum_bytes >= least_minimum &&
           (rule.method == Method::rabin || rule.method == Method::gear ||
            rule.method == Method::fastcdc);
}

Errc SelectResult::allocate(const Rule& rule, u64 most_bytes) {
    const u64 segments = segments_of(rule, most_bytes) + 1;
    WARREN_TRY(chains.allocate(segments));
    WARREN_TRY(exits.allocate(segments));
    WARREN_TRY(counts.allocate(segments));
    const u64 longest = std::min(u64{segment_tiles(rule)} << tile_shift, most_bytes);
    // One more, for an end at the start of the segment.
    most_ends = static_cast<u32>(longest / least_distance(rule) + 1);
    WARREN_TRY(guesses.allocate(segments * most_ends));
    WARREN_TRY(ends.allocate(guesses.count()));
    WARREN_TRY(unsettled.allocate(2 * segments));
    WARREN_TRY(progress.allocate(1));
    if (rule.method == Method::fastcdc) WARREN_TRY(heads.allocate(most_listed(most_bytes)));
    WARREN_TRY(host_ends.allocate(most_bytes / least_distance(rule) + 1));
    return outcome.allocate(1);
}

Errc queue_start(SelectState* state, const gpu::Stream& stream) {
    start_stream<<<1, 1, 0, stream.get()>>>(state);
    return gpu::check(cudaGetLastError(), "start_stream");
}

Errc queue_selection(const DeviceRule& rule, const SelectStretch& stretch, const ScanResult& scan,
                     const SelectResult& result, SelectState* state, const gpu::Stream& stream) {
    const Rule& own = rule.rule();
    const u64 window = own.method == Method::rabin ? 0 : own.window_bytes;
    SelectWork work{};
    work.minimum = static_cast<i64>(own.minimum_bytes);
    work.average = static_cast<i64>(own.average_bytes);
    work.maximum = static_cast<i64>(own.maximum_bytes);
    work.mask = rule.raised(own.mask);
    work.early_mask = rule.raised(own.early_mask);
    work.entries = rule.entries();
    work.list = scan.device_list.data();
    work.tile_begins = scan.tile_counts.data();
    work.total = scan.total.data();
    work.most_listed = static_cast<u32>(scan.device_list.count());
    work.heads = result.heads.data();
    work.least = static_cast<i64>(window) - static_cast<i64>(stretch.base);
    work.bytes = stretch.bytes;
    work.base = static_cast<i64>(stretch.base);
    work.count = static_cast<i64>(stretch.count);
    work.left = static_cast<i64>(stretch.stream_bytes - stretch.base);
    work.segment_tiles = segment_tiles(own);
    work.segments = segments_of(own, stretch.count);
    work.state = state;
    work.chains = result.chains.data();
    work.exits = result.exits.data();
    work.counts = result.counts.data();
    work.unsettled = result.unsettled.data();
    work.progress = result.progress.data();
    work.guesses = result.guesses.data();
    work.ends = result.ends.data();
    work.most_ends = result.most_ends;
    if (own.method != Method::fastcdc) return queue_steps<false>(work, result, stream);
    find_heads<<<candidate_blocks(rule, stretch.count), candidate_threads, 0, stream.get()>>>(work);
    return queue_steps<true>(work, result, stream);
}

}  // namespace warren::chunk::cuda
