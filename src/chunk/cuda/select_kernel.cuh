// SPDX-License-Identifier: Apache-2.0
// The serial rule applied to a list of candidates by one device thread.
//
// Fastcdc starts a new hash at the minimum of a chunk. The first 63 windows from there, called the
// head of the chunk, are not in the list of candidates and have to be hashed separately. Almost all
// chunks begin at a candidate, so find_heads() examines the heads of all candidates in parallel
// first; a thread that follows a chain hashes a head itself only if a chunk begins elsewhere.
// Invariant: positions are relative to the start of the stretch; a chunk that is incomplete there
// begins at or before 0.
#pragma once

#include <cuda_runtime.h>

#include "base/host_device.hpp"
#include "chunk/cuda/gear_window.cuh"
#include "chunk/cuda/scan_kernel.cuh"
#include "chunk/cuda/select_launch.hpp"
#include "chunk/select.hpp"

namespace warren::chunk::cuda {

// If a segment's chain does not meet that of the previous segment, one block follows the segments
// after it again: up to `settle_threads` of them at once, at most `most_rounds` times. Beyond that
// the host is faster.
inline constexpr u32 settle_threads = 256;
inline constexpr u32 most_rounds = 256;

/// What a round of the selection reads and writes.
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
    i64 least;  // candidates before this position have no whole window
    u8* heads;
    // The stretch.
    const u8* bytes;
    i64 base;
    i64 count;
    i64 left;  // bytes of the stream from the start of the stretch on
    u32 segment_tiles;
    u32 segments;
    // The selection.
    SelectState* state;
    SegmentChain* chains;
    i64* exits;
    u32* counts;
    u32* guesses;
    u32* ends;
    u32 most_ends;  // per segment
    u32* unsettled;
    SelectProgress* progress;
};

__device__ inline bool can_choose(const SelectWork& work) {
    return work.state->is_known != 0 && *work.total <= work.most_listed;
}

// What is known of the head of a chunk that begins at a candidate: no window matches, 1 + the
// number of the first one that does, or unknown because the bytes or the stream end too soon.
inline constexpr u8 head_without_match = 0;
inline constexpr u8 head_unknown = 255;
inline constexpr u32 head_bytes = 63;

/// Examines the heads of chunks that begin at candidates, with eight lanes per candidate. (If the
/// maximum exceeds the minimum by less than a head, no chunk begins at a candidate.)
__global__ void find_heads(SelectWork work) {
    __shared__ u64 table[256];
    load_table(table, work.entries);
    if (!can_choose(work)) return;
    const u32 listed = *work.total;
    const i64 least = work.minimum / 2 * 2;
    const i64 border = work.average / 2 * 2 - least;
    const u32 each = gridDim.x * blockDim.x / window_lanes;
    const u32 own = (blockIdx.x * blockDim.x + threadIdx.x) / window_lanes;
    // All lanes of a warp take part, so the warp continues while one of its candidates exists.
    for (u32 at = own; at / 4 * 4 < listed; at += each) {
        const i64 end = at < listed ? work.list[at] & list_end_mask : 1;
        const i64 from = end - 1 + least;
        const WindowPart window(table, {work.bytes, 0, work.count}, from);
        u32 first = head_bytes;
#pragma unroll
        for (u32 byte = 0; byte < lane_bytes; ++byte) {
            const u32 place = window.lane() * lane_bytes + byte;
            const u64 mask = place < border ? work.early_mask : work.mask;
            if ((window.begin_up_to(byte) & mask) == 0 && place < first) first = place;
        }
        const u32 all_hits = __ballot_sync(~0u, first < head_bytes);
        const u32 hits = all_hits >> (threadIdx.x % 32 / window_lanes * window_lanes) & 0xff;
        const u32 writer = hits == 0 ? 0 : static_cast<u32>(__ffs(static_cast<int>(hits))) - 1;
        if (at >= listed || window.lane() != writer) continue;
        // One more than the head, since fastcdc ignores an unpaired last byte.
        const bool is_known = from + head_bytes + 1 <= work.count;
        const u32 known = hits == 0 ? head_without_match : 1 + first;
        work.heads[at] = is_known ? static_cast<u8>(known) : head_unknown;
    }
}

/// Whether a window in the head of the chunk at `start` matches before `top`. All bytes are loaded
/// and looked up before the first is tested, because loads that depend on each other would take
/// most of the time.
__device__ inline bool match_in_head(const SelectWork& work, i64 start, i64 top, i64& end) {
    constexpr u32 words = 16;
    const i64 from = start + work.minimum / 2 * 2;
    const i64 last = from + head_bytes < top ? from + head_bytes : top;
    // What lies before the stretch was examined with the previous one.
    if (last <= 0 || from >= last) return false;
    const DataRange data{work.bytes, from < 0 ? from : 0, work.count};
    const i64 aligned = from & ~i64{3};
    const u32 shift = static_cast<u32>(from - aligned) * 8;
    u32 loaded[words + 1];
#pragma unroll
    for (u32 word = 0; word <= words; ++word)
        loaded[word] = load_word(data, aligned + 4 * word);
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

/// Follows a chain from chunk to chunk.
template <bool is_fastcdc>
class ChunkWalk {
 public:
    /// Starts with a chunk that begins at `start` and ends in the segment or after it.
    __device__ ChunkWalk(const SelectWork& work, u32 segment, i64 start)
        : work_(work),
          start_(start),
          at_(work.tile_begins[segment * work.segment_tiles]),
          total_(*work.total) {
        const i64 length = static_cast<i64>(work.segment_tiles) << tile_shift;
        border_ = (segment + 1) * length < work.count ? (segment + 1) * length : work.count;
    }

    /// Where the current chunk begins.
    __device__ i64 start() const { return start_; }
    /// Moves to the next chunk, at the end of the current one, if that end is in the segment.
    __device__ bool step() {
        const i64 end = is_fastcdc ? end_of_fastcdc() : end_of_chunk();
        if (end > border_) return false;
        start_ = end;
        return true;
    }

 private:
    __device__ i64 end_of_chunk() {
        const i64 forced = start_ + work_.maximum;
        i64 found = 0;
        return move(start_ + work_.minimum, 0, forced, found) ? found : forced;
    }

    /// Returns a position after the stretch if the end is not certain yet.
    __device__ i64 end_of_fastcdc() {
        // Bytes are processed in pairs, so an odd last byte of the stream is ignored.
        const i64 left = work_.left - start_;
        const i64 limit = start_ + (left < work_.maximum ? left : work_.maximum) / 2 * 2;
        const i64 top = limit < work_.count ? limit : work_.count;
        const i64 least = work_.minimum / 2 * 2;
        const u8 head = opener_ == nobody ? head_unknown : work_.heads[opener_];
        opener_ = nobody;
        i64 found = 0;
        if (head == head_unknown) {
            if (match_in_head(work_, start_, top, found)) return found;
        } else if (head != head_without_match) {
            return start_ + least + head - 1;
        }
        const i64 border = start_ + work_.average / 2 * 2 + 1;
        if (!move(start_ + least + head_bytes + 1, border, top + 1, found))
            return start_ + work_.maximum;
        opener_ = at_;
        return found - 1;
    }

    /// Moves to the first candidate in [end, limit). For fastcdc: to the first one that matches the
    /// mask in effect there, which is the early one below `border` and the late one from it on.
    /// Returns false if there is none.
    __device__ bool move(i64 end, i64 border, i64 limit, i64& found) {
        if (end < work_.least) end = work_.least;
        for (; at_ < total_; ++at_) {
            const u32 entry = work_.list[at_];
            found = is_fastcdc ? entry & list_end_mask : entry;
            if (found >= limit) return false;
            if (found < end) continue;
            if (!is_fastcdc || (entry & (found < border ? early_flag : late_flag)) != 0)
                return true;
        }
        return false;
    }

    static constexpr u32 nobody = ~u32{0};

    const SelectWork& work_;
    i64 start_;
    i64 border_;  // end of the segment
    u32 at_;      // index in the list
    u32 total_;
    u32 opener_ = nobody;  // fastcdc: the candidate at which the current chunk begins
};

/// Follows a chain in each segment from a guess: that a chunk begins where the segment does.
template <bool is_fastcdc>
__global__ void guess_segments(SelectWork work) {
    const u32 segment = blockIdx.x * blockDim.x + threadIdx.x;
    if (segment == 0) work.progress->unsettled = 0;
    if (segment >= work.segments || !can_choose(work)) return;
    const i64 length = static_cast<i64>(work.segment_tiles) << tile_shift;
    const i64 guess = segment == 0 ? work.state->start - work.base : segment * length;
    u32* const guesses = work.guesses + static_cast<u64>(segment) * work.most_ends;
    ChunkWalk<is_fastcdc> walk(work, segment, guess);
    u32 count = 0;
    while (walk.step())
        guesses[count++] = static_cast<u32>(walk.start());
    work.chains[segment] = {guess, count, 0, 0};
    work.counts[segment] = count;
    work.exits[segment] = walk.start();
}

/// If the previous segment's chain ended elsewhere than this segment's began, follows the chain
/// again from there, up to the first end that the chain from the guess also has: the rest is equal.
/// Returns whether the end of the segment's last chunk has changed. Requires: segment > 0.
template <bool is_fastcdc>
__device__ bool correct_segment(const SelectWork& work, u32 segment) {
    SegmentChain& chain = work.chains[segment];
    // Relaxed: if this misses a concurrent store, the storing thread lists the segment as
    // unsettled, and it is corrected after a barrier or in another kernel.
    const i64 start = device_atomic<i64>(work.exits[segment - 1]).load(hd::memory_order_relaxed);
    if (start == chain.start) return false;
    const u32* const guesses = work.guesses + static_cast<u64>(segment) * work.most_ends;
    u32* const ends = work.ends + static_cast<u64>(segment) * work.most_ends;
    ChunkWalk<is_fastcdc> walk(work, segment, start);
    const u32 guessed = chain.guessed;
    u32 own = 0;
    u32 passed = 0;
    bool has_met = false;
    while (!has_met && walk.step()) {
        const u32 end = static_cast<u32>(walk.start());
        ends[own++] = end;
        while (passed < guessed && guesses[passed] < end)
            ++passed;
        has_met = passed < guessed && guesses[passed] == end;
    }
    passed = has_met ? passed + 1 : guessed;
    chain = {start, guessed, own, passed};
    work.counts[segment] = own + guessed - passed;
    const i64 exit = has_met ? guesses[guessed - 1] : walk.start();
    device_atomic<i64> last(work.exits[segment]);
    if (last.load(hd::memory_order_relaxed) == exit) return false;
    last.store(exit, hd::memory_order_relaxed);
    return segment + 1 < work.segments;
}

template <bool is_fastcdc>
__global__ void correct_segments(SelectWork work) {
    const u32 segment = blockIdx.x * blockDim.x + threadIdx.x;
    if (segment == 0 || segment >= work.segments || !can_choose(work)) return;
    if (!correct_segment<is_fastcdc>(work, segment)) return;
    const u32 at =
        device_atomic<u32>(work.progress->unsettled).fetch_add(1, hd::memory_order_relaxed);
    work.unsettled[at] = segment + 1;
}

/// One block: corrects segments that begin elsewhere than the previous one ends, until none is
/// left.
template <bool is_fastcdc>
__global__ void settle_segments(SelectWork work) {
    __shared__ u32 changed[settle_threads / 32];
    const u32 lane = threadIdx.x % 32;
    u32 count = work.progress->unsettled;
    u32* now = work.unsettled;
    u32* next = now + work.segments;
    const bool is_possible = can_choose(work);
    for (u32 round = 0; is_possible && count != 0 && count <= settle_threads; ++round) {
        if (round == most_rounds) break;
        const bool has_changed =
            threadIdx.x < count && correct_segment<is_fastcdc>(work, now[threadIdx.x]);
        const u32 lanes = __ballot_sync(~0u, has_changed);
        if (lane == 0) changed[threadIdx.x / 32] = __popc(lanes);
        __syncthreads();
        u32 at = __popc(lanes & ((1u << lane) - 1));
        u32 found = 0;
        for (u32 warp = 0; warp < settle_threads / 32; ++warp) {
            if (warp < threadIdx.x / 32) at += changed[warp];
            found += changed[warp];
        }
        if (has_changed) next[at] = now[threadIdx.x] + 1;
        count = found;
        u32* const done = now;
        now = next;
        next = done;
        __syncthreads();
    }
    if (threadIdx.x == 0) work.progress->is_chosen = is_possible && count == 0 ? 1 : 0;
}

/// Writes the ends, with one warp per segment. Reports the result to the host, and to the next
/// stretch the start of its first chunk.
__global__ void hand_over(SelectWork work, u32* host_ends, SelectOutcome* outcome) {
    const bool is_chosen = work.progress->is_chosen != 0;
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *outcome = {is_chosen ? 1u : 0u, work.progress->ends, *work.total};
        *work.state = {is_chosen ? work.base + work.exits[work.segments - 1] : 0,
                       is_chosen ? 1u : 0u};
    }
    const u32 segment = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (segment >= work.segments || !is_chosen) return;
    const SegmentChain chain = work.chains[segment];
    const u32* const guesses = work.guesses + static_cast<u64>(segment) * work.most_ends;
    const u32* const ends = work.ends + static_cast<u64>(segment) * work.most_ends;
    const u32 count = chain.own + chain.guessed - chain.passed;
    for (u32 at = threadIdx.x % 32; at < count; at += 32) {
        host_ends[work.counts[segment] + at] =
            at < chain.own ? ends[at] : guesses[chain.passed + at - chain.own];
    }
}

}  // namespace warren::chunk::cuda
