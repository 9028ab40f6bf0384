// SPDX-License-Identifier: Apache-2.0
// Scans for candidates on a GPU. A lane rolls one hash along a run of its own. Shared memory holds
// one copy of the hash's table per pair of banks, so lanes that look up different entries never
// conflict.
//
// The 32 runs of a warp are read in stages of 64 bytes each, which are copied to shared memory
// while the previous stage is processed. The 64 bytes before a run are a stage too, which fills the
// window. Invariant: bit i of the result stands for the window that ends after byte i, as on the
// CPU.
#pragma once

#include <cuda_runtime.h>

#include "base/host_device.hpp"
#include "chunk/cuda/stage_quads.hpp"

namespace warren::chunk::cuda {

inline constexpr u32 row_bytes = stage_bytes + 16;  // neighbouring rows use other banks
inline constexpr u32 buffer_bytes = 32 * row_bytes;
inline constexpr u32 buffers = 3;  // the previous stage, the current one, the next one
inline constexpr u32 copies = 16;  // of a table with 64-bit entries
inline constexpr u32 table_bytes = 256 * 8 * copies;
inline constexpr u32 tile_shift = 16;  // a tile has 64 KiB

/// What a scan reads and writes. `bytes` is aligned to 16. If `has_history`, the 64 bytes before it
/// are readable and count; otherwise zeros count in their place.
struct ScanWork {
    const u8* bytes;
    u64 count;
    u64* bits;         // a word for each 64 bytes, an even number of words
    u32* tile_counts;  // number of bits set in each tile, added to the previous values
    u32 run_bytes;     // length of a lane's run, a multiple of 128
    bool has_history;

    __device__ DataExtent extent() const { return {count, has_history}; }
};

/// Contains the tables, then the buffers of each warp.
extern __shared__ __align__(128) u8 scan_memory[];

/// The entry at offset `place` of table `number`; the offset includes that of the lane's copy.
template <u32 number>
__device__ uint2 look_up(u32 place) {
    return *reinterpret_cast<const uint2*>(scan_memory + number * table_bytes + place);
}

__device__ inline uint4 read_quad(u32 address) {
    uint4 quad;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(quad.x), "=r"(quad.y), "=r"(quad.z), "=r"(quad.w)
                 : "r"(address));
    return quad;
}

/// The offset of the entry of byte `k` of a word, computed by one shift and one logical operation.
template <u32 k>
__device__ u32 entry_of(u32 word, u32 copy) {
    const u32 shifted = k == 0 ? word << 7 : word >> (8 * k - 7);
    return (shifted & 0x7f80u) | copy;
}

/// Gear over 64 bytes. `wide`: the mask has bits in the low half of the hash.
template <bool wide>
struct GearScan {
    static constexpr u32 tables = 1;

    const u64* entries;
    u64 mask;
    u64 value;

    struct State {
        u64 hash;
        u32 copy;
    };

    __device__ State begin(u32 copy) const { return {0, copy}; }
    template <u32 k, bool has_out>
    __device__ void roll(State& state, u32 in, u32) const {
        const uint2 entry = look_up<0>(entry_of<k>(in, state.copy));
        state.hash = state.hash + state.hash + (static_cast<u64>(entry.y) << 32 | entry.x);
    }
    __device__ bool matches(const State& state) const {
        if constexpr (wide) return (state.hash & mask) == value;
        return (static_cast<u32>(state.hash >> 32) & static_cast<u32>(mask >> 32)) ==
               static_cast<u32>(value >> 32);
    }
    static constexpr bool has_window = false;
    static constexpr u32 window = 64;
};

/// Rabin. The fingerprint is shifted to the top of 64 bits, so that the leaving bits are its top
/// byte. `raised` is the shift, or 0 if it is known only at run time. `wide`: the mask has bits in
/// the high half. Windows of 48 and 64 bytes begin at a multiple of 16 from a stage's start.
template <u32 window_bytes, u32 raised, bool wide>
struct RabinScan {
    static constexpr u32 tables = 2;
    static constexpr bool has_window = true;
    static constexpr u32 window = window_bytes;

    const u64* entries;  // 256 each for bytes that leave: at the top, the window
    u64 mask;            // shifted like the fingerprint
    u64 value;
    u32 raise;

    struct State {
        u32 low;
        u32 high;
        u32 copy;
    };

    __device__ State begin(u32 copy) const { return {0, 0, copy}; }

    template <u32 k, bool has_out>
    __device__ void roll(State& state, u32 in, u32 out) const {
        const uint2 top = look_up<0>(((state.high >> 17) & 0x7f80u) | state.copy);
        uint2 left{0, 0};
        if constexpr (has_out) left = look_up<1>(entry_of<k>(out, state.copy));
        const u32 high = __funnelshift_l(state.low, state.high, 8) ^ top.y ^ left.y;
        const u32 low = (state.low << 8) ^ top.x ^ left.x;
        if constexpr (raised != 0) {
            constexpr int up = static_cast<int>(raised) - static_cast<int>(8 * k);
            const u32 moved = up >= 0 ? in << up : in >> -up;
            state.low = low ^ (moved & (0xffu << raised));
            state.high = high;
        } else {
            const u64 entering = static_cast<u64>(in >> (8 * k) & 0xffu) << raise;
            state.low = low ^ static_cast<u32>(entering);
            state.high = high ^ static_cast<u32>(entering >> 32);
        }
    }
    __device__ bool matches(const State& state) const {
        const u32 low = (state.low ^ static_cast<u32>(value)) & static_cast<u32>(mask);
        if constexpr (!wide) return low == 0;
        return (low |
                ((state.high ^ static_cast<u32>(value >> 32)) & static_cast<u32>(mask >> 32))) == 0;
    }
};

/// Four steps, with the bytes of one word.
template <bool has_out, class Scan>
__device__ u32 roll_word(const Scan& scan, typename Scan::State& state, u32 in, u32 out) {
    u32 hits = 0;
    scan.template roll<0, has_out>(state, in, out);
    if (scan.matches(state)) hits |= 1;
    scan.template roll<1, has_out>(state, in, out);
    if (scan.matches(state)) hits |= 2;
    scan.template roll<2, has_out>(state, in, out);
    if (scan.matches(state)) hits |= 4;
    scan.template roll<3, has_out>(state, in, out);
    if (scan.matches(state)) hits |= 8;
    return hits;
}

template <bool has_out, class Scan>
__device__ u32 roll_quad(const Scan& scan, typename Scan::State& state, uint4 in, uint4 out) {
    u32 hits = roll_word<has_out>(scan, state, in.x, out.x);
    hits |= roll_word<has_out>(scan, state, in.y, out.y) << 4;
    hits |= roll_word<has_out>(scan, state, in.z, out.z) << 8;
    return hits | roll_word<has_out>(scan, state, in.w, out.w) << 12;
}

/// Starts an asynchronous copy of the 16 bytes at `from` to an address in shared memory.
__device__ inline void copy_quad(u32 to, const u8* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
}

__device__ inline void write_quad(u32 to, const Quad& quad) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(quad.words[0]),
                 "r"(quad.words[1]), "r"(quad.words[2]), "r"(quad.words[3]));
}

/// The 32 runs of a warp, stage by stage: each lane copies a part of all rows and reads its own
/// row.
template <class Scan>
class Runs {
 public:
    __device__ Runs(const ScanWork& work, u32 buffer, i64 warp_begin)
        : work_(work),
          lane_(threadIdx.x % 32),
          buffer_(buffer),
          warp_begin_(warp_begin),
          is_inside_(work.extent().has_all(warp_begin, warp_begin + 32 * i64{work.run_bytes})) {}

    /// Where the lane's own run begins.
    __device__ i64 begin() const { return warp_begin_ + lane_ * i64{work_.run_bytes}; }

    /// Starts copying stage `stage` of all 32 runs; -1 is the stage before them.
    __device__ void ask(int stage, u32 slot) const {
        const u32 row = lane_ / 4;
        const u32 quad = lane_ % 4 * quad_bytes;
        const i64 at =
            warp_begin_ + row * i64{work_.run_bytes} + static_cast<i64>(stage) * stage_bytes + quad;
        const u32 to = buffer_ + slot * buffer_bytes + row * row_bytes + quad;
        if (is_inside_) {
#pragma unroll
            for (u32 part = 0; part < 4; ++part)
                copy_quad(to + part * 8 * row_bytes,
                          work_.bytes + at + part * 8 * i64{work_.run_bytes});
        } else {
            for (u32 part = 0; part < 4; ++part)
                fetch_at_edge(to + part * 8 * row_bytes, at + part * 8 * i64{work_.run_bytes});
        }
        asm volatile("cp.async.commit_group;");
    }
    /// Waits for all stages except the one requested last.
    __device__ void wait() const {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncwarp();
    }
    __device__ uint4 quad(u32 slot, u32 index) const {
        return read_quad(buffer_ + slot * buffer_bytes + lane_ * row_bytes + index * 16);
    }

 private:
    __device__ void fetch_at_edge(u32 to, i64 at) const {
        const u32 bytes = work_.extent().bytes_at(at);
        if (bytes == quad_bytes)
            copy_quad(to, work_.bytes + at);
        else
            write_quad(to, read_part(work_.bytes + at, bytes));
    }

    const ScanWork& work_;
    u32 lane_;
    u32 buffer_;
    i64 warp_begin_;
    bool is_inside_;  // equal for the whole warp
};

/// The bytes that leave the window with quad `index` of a stage, for windows of 64 - 16 n bytes.
template <u32 window, class Scan>
__device__ uint4 leaving(const Runs<Scan>& runs, u32 before, u32 now, u32 index) {
    constexpr u32 skip = (64 - window) / 16;
    return index + skip < 4 ? runs.quad(before, index + skip) : runs.quad(now, index + skip - 4);
}

template <class Scan>
__device__ void scan_run(const Scan& scan, const ScanWork& work, const Runs<Scan>& runs,
                         typename Scan::State state) {
    const int stages = static_cast<int>(work.run_bytes / stage_bytes);
    const i64 begin = runs.begin();
    runs.ask(-1, 0);
    runs.ask(0, 1);
    runs.wait();
#pragma unroll
    for (u32 index = (64 - Scan::window) / 16; index < 4; ++index)
        roll_quad<false>(scan, state, runs.quad(0, index), uint4{});
    u64 first_half = 0;
    u32 before = 0;
    for (int stage = 0; stage < stages; ++stage) {
        const u32 now = before == buffers - 1 ? 0 : before + 1;
        const u32 next = now == buffers - 1 ? 0 : now + 1;
        __syncwarp();
        runs.ask(stage + 1 < stages ? stage + 1 : stage, next);
        runs.wait();
        u32 hits[2];
#pragma unroll
        for (u32 half = 0; half < 2; ++half) {
            uint4 out[2] = {};
            if constexpr (Scan::has_window) {
                out[0] = leaving<Scan::window>(runs, before, now, 2 * half);
                out[1] = leaving<Scan::window>(runs, before, now, 2 * half + 1);
            }
            hits[half] = roll_quad<Scan::has_window>(scan, state, runs.quad(now, 2 * half), out[0]);
            hits[half] |=
                roll_quad<Scan::has_window>(scan, state, runs.quad(now, 2 * half + 1), out[1])
                << 16;
        }
        u64 word = static_cast<u64>(hits[1]) << 32 | hits[0];
        const i64 at = begin + static_cast<i64>(stage) * stage_bytes;
        const i64 left = static_cast<i64>(work.count) - at;
        if (left < 64) word = left > 0 ? word & ((u64{1} << left) - 1) : 0;
        if (word != 0) {
            device_atomic<u32>(work.tile_counts[at >> tile_shift])
                .fetch_add(static_cast<u32>(__popcll(word)), hd::memory_order_relaxed);
        }
        if (stage % 2 == 0) {
            first_half = word;
        } else if (left > -64) {
            reinterpret_cast<ulonglong2*>(work.bits)[at / 128] = make_ulonglong2(first_half, word);
        }
        before = now;
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncwarp();
}

/// One block per multiprocessor; each warp processes 32 runs at a time.
template <class Scan>
__global__ void scan_kernel(Scan scan, ScanWork work) {
    u64* const table = reinterpret_cast<u64*>(scan_memory);
    for (u32 at = threadIdx.x; at < Scan::tables * 256 * copies; at += blockDim.x)
        table[at] = scan.entries[at / copies];
    __syncthreads();
    const u32 base = static_cast<u32>(__cvta_generic_to_shared(scan_memory));
    const u32 warp = threadIdx.x / 32;
    const u32 buffer = base + Scan::tables * table_bytes + warp * buffers * buffer_bytes;
    const i64 warp_bytes = 32 * static_cast<i64>(work.run_bytes);
    const i64 stride = warp_bytes * gridDim.x * (blockDim.x / 32);
    i64 at = warp_bytes * (static_cast<i64>(warp) * gridDim.x + blockIdx.x);
    for (; at < static_cast<i64>(work.count); at += stride) {
        const Runs<Scan> runs(work, buffer, at);
        scan_run(scan, work, runs, scan.begin(threadIdx.x % copies * 8));
    }
}

}  // namespace warren::chunk::cuda
