// SPDX-License-Identifier: Apache-2.0
// The serial rule over a list of candidates, as one thread of a device follows it.
//
// Invariant: positions are counted from the stretch's beginning; a chunk that is open there begins
// before it.
#pragma once

#include <cuda_runtime.h>

#include "base/host_device.hpp"
#include "chunk/cuda/scan_kernel.cuh"
#include "chunk/cuda/select_launch.hpp"
#include "chunk/select.hpp"

namespace warren::chunk::cuda {

inline constexpr u32 select_rounds = 6;

/// What a round of the choice reads and writes.
struct SelectWork {
    // The rule.
    i64 minimum;
    i64 average;
    i64 maximum;
    u64 mask;
    u64 early_mask;
    const u64* entries;
    // The candidates.
    const u32* list;
    const u32* tile_begins;
    const u32* total;
    u32 most_listed;
    i64 least;  // candidates before have no whole window
    // The stretch.
    const u8* bytes;
    i64 base;
    i64 count;
    i64 left;  // of the stream, from the stretch's beginning
    u32 segment_tiles;
    u32 segments;
    // The choice.
    SelectState* state;
    i64* starts;
    i64* exits;
    u32* counts;
    u32* progress;
    u32* ends;
    u32 most_ends;
};

__device__ inline bool can_choose(const SelectWork& work) {
    return work.state->is_known != 0 && *work.total <= work.most_listed;
}

/// The candidates from some place on.
class Candidates {
 public:
    __device__ Candidates(const SelectWork& work, u32 segment)
        : work_(work), at_(work.tile_begins[segment * work.segment_tiles]), total_(*work.total) {}

    /// Moves on to the first one of [end, limit) that has the flag; false if there is none.
    __device__ bool move(i64 end, i64 limit, u32 flag, i64& found) {
        if (end < work_.least) end = work_.least;
        for (; at_ < total_; ++at_) {
            const u32 entry = work_.list[at_];
            found = flag == 0 ? entry : entry & list_end_mask;
            if (found >= limit) return false;
            if (found >= end && (flag == 0 || (entry & flag) != 0)) return true;
        }
        return false;
    }

 private:
    const SelectWork& work_;
    u32 at_;
    u32 total_;
};

/// The four bytes at `at`, which is aligned; of those outside of [first, last) none is read where
/// the word is not wholly inside of the stretch.
__device__ inline u32 load_word(const SelectWork& work, i64 at, i64 first, i64 last) {
    if (at >= last) return 0;
    if (at >= 0 && at + 4 <= work.count) return *reinterpret_cast<const u32*>(work.bytes + at);
    u32 word = 0;
    for (u32 byte = 0; byte < 4; ++byte) {
        const i64 place = at + byte;
        if (place >= first && place < last)
            word |= static_cast<u32>(work.bytes[place]) << (8 * byte);
    }
    return word;
}

/// Whether a window that begins at the minimum of a fastcdc chunk matches, up to `top`. All bytes
/// are loaded and looked up before the first is tested, since loads that wait for each other would
/// take most of the time.
__device__ inline bool match_in_head(const SelectWork& work, i64 start, i64 top, i64& end) {
    constexpr u32 words = 16;
    const i64 from = start + work.minimum / 2 * 2;
    const i64 last = from + 63 < top ? from + 63 : top;
    // What lies before the stretch was looked at with the one before.
    if (last <= 0 || from >= last) return false;
    const i64 aligned = from & ~i64{3};
    const u32 shift = static_cast<u32>(from - aligned) * 8;
    u32 loaded[words + 1];
#pragma unroll
    for (u32 word = 0; word <= words; ++word) {
        loaded[word] = load_word(work, aligned + 4 * word, from, last);
    }
    const i64 border = start + work.average / 2 * 2;
    u64 hash = 0;
    i64 first = last;
#pragma unroll
    for (u32 word = 0; word < words; ++word) {
        const u32 four = __funnelshift_r(loaded[word], loaded[word + 1], shift);
#pragma unroll
        for (u32 byte = 0; byte < 4; ++byte) {
            const i64 at = from + 4 * word + byte;
            hash = hash + hash + work.entries[four >> (8 * byte) & 0xff];
            const u64 mask = at < border ? work.early_mask : work.mask;
            if ((hash & mask) == 0 && at < first) first = at;
        }
    }
    end = first;
    return first < last;
}

/// The end of the chunk that begins at `start`; behind the stretch if it is not certain yet.
template <bool is_fastcdc>
__device__ i64 end_of_chunk(const SelectWork& work, Candidates& candidates, i64 start) {
    const i64 forced = start + work.maximum;
    i64 found = 0;
    if constexpr (!is_fastcdc)
        return candidates.move(start + work.minimum, forced, 0, found) ? found : forced;
    // Bytes are taken in pairs, so an odd last one of the stream is not looked at.
    const i64 longest = work.left - start < work.maximum ? work.left - start : work.maximum;
    const i64 limit = start + longest / 2 * 2;
    const i64 top = limit < work.count ? limit : work.count;
    if (match_in_head(work, start, top, found)) return found;
    const i64 whole = start + work.minimum / 2 * 2 + 64;
    const i64 border = start + work.average / 2 * 2 + 1;
    Candidates early = candidates;
    if (early.move(whole, border < top ? border : top + 1, early_flag, found)) return found - 1;
    const bool has_late =
        candidates.move(whole > border ? whole : border, top + 1, late_flag, found);
    return has_late ? found - 1 : forced;
}

/// Follows the chunks from `start` through a segment and calls visit(end) for those that end in it;
/// answers the last end.
template <bool is_fastcdc, class Visit>
__device__ i64 walk_segment(const SelectWork& work, u32 segment, i64 start, const Visit& visit) {
    const i64 length = static_cast<i64>(work.segment_tiles) << tile_shift;
    const i64 border = (segment + 1) * length < work.count ? (segment + 1) * length : work.count;
    Candidates candidates(work, segment);
    while (true) {
        const i64 end = end_of_chunk<is_fastcdc>(work, candidates, start);
        if (end > border) return start;
        visit(end);
        start = end;
    }
}

template <bool is_fastcdc>
__device__ void walk_and_count(const SelectWork& work, u32 segment, i64 start) {
    u32 count = 0;
    const i64 exit = walk_segment<is_fastcdc>(work, segment, start, [&](i64) { ++count; });
    work.starts[segment] = start;
    work.counts[segment] = count;
    // Relaxed: another thread's choice of this round may miss it, and then the next round has it.
    device_atomic<i64>(work.exits[segment]).store(exit, hd::memory_order_relaxed);
}

/// From guesses: that a chunk begins where a segment does.
template <bool is_fastcdc>
__global__ void guess_segments(SelectWork work) {
    const u32 segment = blockIdx.x * blockDim.x + threadIdx.x;
    if (segment < 1 + select_rounds) work.progress[segment] = 0;
    if (segment >= work.segments || !can_choose(work)) return;
    const i64 length = static_cast<i64>(work.segment_tiles) << tile_shift;
    const i64 guess = segment == 0 ? work.state->start - work.base : segment * length;
    walk_and_count<is_fastcdc>(work, segment, guess);
}

/// From where the segment before ended, if it was begun elsewhere.
template <bool is_fastcdc>
__global__ void correct_segments(SelectWork work, u32 round) {
    const u32 segment = blockIdx.x * blockDim.x + threadIdx.x;
    if (segment == 0 || segment >= work.segments || !can_choose(work)) return;
    if (round > 0 && work.progress[round] == 0) return;
    const i64 start = device_atomic<i64>(work.exits[segment - 1]).load(hd::memory_order_relaxed);
    if (start == work.starts[segment]) return;
    device_atomic<u32>(work.progress[1 + round]).fetch_add(1, hd::memory_order_relaxed);
    walk_and_count<is_fastcdc>(work, segment, start);
}

template <bool is_fastcdc>
__global__ void write_ends(SelectWork work) {
    const u32 segment = blockIdx.x * blockDim.x + threadIdx.x;
    if (segment >= work.segments || !can_choose(work)) return;
    u32 at = work.counts[segment];
    walk_segment<is_fastcdc>(work, segment, work.starts[segment], [&](i64 end) {
        if (at < work.most_ends) work.ends[at] = static_cast<u32>(end);
        ++at;
    });
}

__device__ inline bool is_chosen(const SelectWork& work) {
    return can_choose(work) && work.progress[select_rounds] == 0 &&
           work.progress[0] <= work.most_ends;
}

__global__ void hand_over(SelectWork work, u32* host_ends) {
    if (!is_chosen(work)) return;
    const u32 stride = blockDim.x * gridDim.x;
    for (u32 at = blockIdx.x * blockDim.x + threadIdx.x; at < work.progress[0]; at += stride)
        host_ends[at] = work.ends[at];
}

/// One thread: tells the host what came out, and the next stretch where it begins.
__global__ void settle(SelectWork work, SelectOutcome* outcome) {
    const u32 chosen = is_chosen(work) ? 1 : 0;
    *outcome = {chosen, work.progress[0], *work.total};
    *work.state = {chosen != 0 ? work.base + work.exits[work.segments - 1] : 0, chosen};
}

}  // namespace warren::chunk::cuda
