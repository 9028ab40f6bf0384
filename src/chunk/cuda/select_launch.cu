// SPDX-License-Identifier: Apache-2.0
// The rounds of the choice, one kernel each: a round that has nothing to do ends at once, so there
// are as many as ever help.
#include "chunk/cuda/select_launch.hpp"

#include <algorithm>
#include <bit>

#include "chunk/cuda/select_kernel.cuh"
#include "gpu/failure.hpp"

namespace warren::chunk::cuda {

namespace {

constexpr u32 threads = 64;

/// Tiles of a segment: two chunks of the greatest length or more.
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

template <bool is_fastcdc>
Errc queue_rounds(const SelectWork& work, const SelectResult& result, const gpu::Stream& stream) {
    const u32 blocks = (work.segments + threads - 1) / threads;
    guess_segments<is_fastcdc><<<blocks, threads, 0, stream.get()>>>(work);
    for (u32 round = 0; round < select_rounds; ++round)
        correct_segments<is_fastcdc><<<blocks, threads, 0, stream.get()>>>(work, round);
    WARREN_TRY(queue_sums(work.counts, work.segments, work.progress, stream));
    write_ends<is_fastcdc><<<blocks, threads, 0, stream.get()>>>(work);
    hand_over<<<64, 256, 0, stream.get()>>>(work, result.host_ends.data());
    settle<<<1, 1, 0, stream.get()>>>(work, result.outcome.data());
    return gpu::check(cudaGetLastError(), "settle");
}

__global__ void start_stream(SelectState* state) {
    *state = {0, 1};
}

}  // namespace

bool has_selection(const Rule& rule) {
    return rule.method == Method::rabin || rule.method == Method::gear ||
           rule.method == Method::fastcdc;
}

Errc SelectResult::allocate(const Rule& rule, u64 most_bytes) {
    const u64 segments = segments_of(rule, most_bytes) + 1;
    WARREN_TRY(starts.allocate(segments));
    WARREN_TRY(exits.allocate(segments));
    WARREN_TRY(counts.allocate(segments));
    WARREN_TRY(progress.allocate(1 + select_rounds));
    // Shorter chunks than these are so many that the host chooses them.
    const u64 shortest = std::clamp<u64>(rule.minimum_bytes, 128, 4096);
    WARREN_TRY(ends.allocate(most_bytes / shortest + 64));
    WARREN_TRY(host_ends.allocate(ends.count()));
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
    work.least = static_cast<i64>(window) - static_cast<i64>(stretch.base);
    work.bytes = stretch.bytes;
    work.base = static_cast<i64>(stretch.base);
    work.count = static_cast<i64>(stretch.count);
    work.left = static_cast<i64>(stretch.stream_bytes - stretch.base);
    work.segment_tiles = segment_tiles(own);
    work.segments = segments_of(own, stretch.count);
    work.state = state;
    work.starts = result.starts.data();
    work.exits = result.exits.data();
    work.counts = result.counts.data();
    work.progress = result.progress.data();
    work.ends = result.ends.data();
    work.most_ends = static_cast<u32>(result.ends.count());
    return own.method == Method::fastcdc ? queue_rounds<true>(work, result, stream)
                                         : queue_rounds<false>(work, result, stream);
}

}  // namespace warren::chunk::cuda
