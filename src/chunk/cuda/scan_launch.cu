// SPDX-License-Identifier: Apache-2.0
// Chooses the kernel of a rule, and turns bitmaps into lists: the scan has counted the candidates
// of each tile, a prefix sum says where each tile's part begins, and a warp writes it.
#include <algorithm>
#include <vector>

#include "chunk/cuda/scan_kernel.cuh"
#include "chunk/cuda/scan_launch.hpp"
#include "chunk/rabin.hpp"
#include "chunk/tables.hpp"
#include "gpu/failure.hpp"

namespace warren::chunk::cuda {

namespace {

constexpr u32 sum_threads = 1024;
constexpr u32 list_threads = 256;
constexpr u32 words_in_tile = (1u << tile_shift) / 64;

/// Replaces counts by the sums of those before them; one block.
__global__ void sum_tiles(u32* counts, u32 tiles, u32* total) {
    __shared__ u32 sums[sum_threads / 32];
    u32 before = 0;
    for (u32 base = 0; base < tiles; base += sum_threads) {
        const u32 tile = base + threadIdx.x;
        const u32 own = tile < tiles ? counts[tile] : 0;
        u32 sum = own;
        for (u32 step = 1; step < 32; step *= 2) {
            const u32 other = __shfl_up_sync(~0u, sum, step);
            if (threadIdx.x % 32 >= step) sum += other;
        }
        if (threadIdx.x % 32 == 31) sums[threadIdx.x / 32] = sum;
        __syncthreads();
        u32 all = 0;
        for (u32 warp = 0; warp < sum_threads / 32; ++warp) {
            if (warp < threadIdx.x / 32) sum += sums[warp];
            all += sums[warp];
        }
        if (tile < tiles) counts[tile] = before + sum - own;
        before += all;
        __syncthreads();
    }
    if (threadIdx.x == 0) *total = before;
}

/// A warp lists the candidates of a tile.
__global__ void list_tiles(const u64* bits, u64 words, const u32* begins, u32 tiles, u32* list,
                           u32 most) {
    const u32 tile = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const u32 lane = threadIdx.x % 32;
    if (tile >= tiles) return;
    u32 at = begins[tile];
    for (u32 row = 0; row < words_in_tile; row += 32) {
        const u64 index = static_cast<u64>(tile) * words_in_tile + row + lane;
        u64 word = index < words ? bits[index] : 0;
        if (__ballot_sync(~0u, word != 0) == 0) continue;
        const u32 own = static_cast<u32>(__popcll(word));
        u32 sum = own;
        for (u32 step = 1; step < 32; step *= 2) {
            const u32 other = __shfl_up_sync(~0u, sum, step);
            if (lane >= step) sum += other;
        }
        for (u32 place = at + sum - own; word != 0; ++place, word &= word - 1) {
            const u32 bit = static_cast<u32>(__ffsll(static_cast<long long>(word))) - 1;
            if (place < most) list[place] = static_cast<u32>(index * 64) + bit + 1;
        }
        at += __shfl_sync(~0u, sum, 31);
    }
}

template <class Scan>
Errc launch(const Scan& scan, const ScanWork& work, u32 threads, u32 blocks,
            const gpu::Stream& stream) {
    const u32 memory = Scan::tables * table_bytes + threads / 32 * buffers * buffer_bytes;
    WARREN_TRY(gpu::check(
        cudaFuncSetAttribute(scan_kernel<Scan>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(memory)),
        "cudaFuncSetAttribute"));
    scan_kernel<Scan><<<blocks, threads, memory, stream.get()>>>(scan, work);
    return gpu::check(cudaGetLastError(), "scan_kernel");
}

template <u32 window, u32 raised>
Errc launch_rabin(const DeviceRule& rule, const ScanWork& work, const gpu::Stream& stream) {
    constexpr u32 threads = 640;
    const u32 raise = 64 - degree(rule.rule().polynomial);
    const u64 mask = rule.rule().mask << raise;
    const u64 value = rule.rule().value << raise;
    if (mask >> 32 == 0) {
        return launch(RabinScan<window, raised, false>{rule.entries(), mask, value, raise}, work,
                      threads, rule.multiprocessors(), stream);
    }
    return launch(RabinScan<window, raised, true>{rule.entries(), mask, value, raise}, work,
                  threads, rule.multiprocessors(), stream);
}

Errc launch_gear(const DeviceRule& rule, const ScanWork& work, const gpu::Stream& stream) {
    constexpr u32 threads = 512;
    const u64 mask = rule.rule().mask;
    const u64 value = rule.rule().value;
    if (static_cast<u32>(mask) == 0) {
        return launch(GearScan<false>{rule.entries(), mask, value}, work, threads,
                      rule.multiprocessors(), stream);
    }
    return launch(GearScan<true>{rule.entries(), mask, value}, work, threads,
                  rule.multiprocessors(), stream);
}

Errc launch_scan(const DeviceRule& rule, const ScanWork& work, const gpu::Stream& stream) {
    if (rule.rule().method == Method::gear) return launch_gear(rule, work, stream);
    const bool is_lbfs = degree(rule.rule().polynomial) == 63;
    const bool is_restic = degree(rule.rule().polynomial) == 53;
    if (rule.rule().window_bytes == 48) {
        return is_lbfs ? launch_rabin<48, 1>(rule, work, stream)
                       : launch_rabin<48, 0>(rule, work, stream);
    }
    return is_restic ? launch_rabin<64, 11>(rule, work, stream)
                     : launch_rabin<64, 0>(rule, work, stream);
}

}  // namespace

bool DeviceRule::has_kernel(const Rule& rule) {
    if (rule.method == Method::gear) return true;
    return rule.method == Method::rabin && (rule.window_bytes == 48 || rule.window_bytes == 64) &&
           degree(rule.polynomial) >= 40;
}

Errc DeviceRule::open(const Rule& rule, const gpu::Stream& stream) {
    if (!has_kernel(rule)) return Errc::not_supported;
    rule_ = rule;
    int device = 0;
    int count = 0;
    WARREN_TRY(gpu::check(cudaGetDevice(&device), "cudaGetDevice"));
    WARREN_TRY(gpu::check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
                          "cudaDeviceGetAttribute"));
    multiprocessors_ = static_cast<u32>(count);
    std::vector<u64> entries(gear_table.begin(), gear_table.end());
    if (rule.method == Method::rabin) {
        const RabinTables tables = make_rabin_tables(rule.polynomial, rule.window_bytes);
        const u32 raise = 64 - degree(rule.polynomial);
        entries.resize(512);
        for (u64 byte = 0; byte < 256; ++byte) {
            // On the device what leaves at the top is shifted out, so only its remainder is added.
            entries[byte] = (tables.append[byte] ^ (byte << tables.shift << 8)) << raise;
            entries[256 + byte] = tables.remove[byte] << raise;
        }
    }
    WARREN_TRY(entries_.allocate(entries.size()));
    WARREN_TRY(stream.copy(entries_.data(), entries.data(), entries_.bytes()));
    return stream.wait();
}

Errc ScanResult::allocate(u64 most_bytes) {
    WARREN_TRY(bits.allocate((most_bytes + 127) / 128 * 2));
    WARREN_TRY(tile_counts.allocate((most_bytes >> tile_shift) + 1));
    WARREN_TRY(list.allocate(most_bytes / 128 + 64));
    return count.allocate(1);
}

Errc queue_scan(const DeviceRule& rule, const u8* bytes, u64 count, bool has_history,
                const ScanResult& result, const gpu::Stream& stream) {
    const u32 tiles = static_cast<u32>((count + (1u << tile_shift) - 1) >> tile_shift);
    // Short runs where there is little, so that all warps have one.
    const u64 warps = rule.multiprocessors() * 20u;
    const u64 share = count / warps / 32 / 128 * 128;
    const u64 longest = rule.rule().method == Method::gear ? 1024 : 2048;
    const u32 run_bytes = static_cast<u32>(std::clamp<u64>(share, 256, longest));
    const ScanWork work{bytes,     count,      result.bits.data(), result.tile_counts.data(),
                        run_bytes, has_history};
    WARREN_TRY(stream.fill(result.tile_counts.data(), 0, tiles * sizeof(u32)));
    WARREN_TRY(launch_scan(rule, work, stream));
    sum_tiles<<<1, sum_threads, 0, stream.get()>>>(result.tile_counts.data(), tiles,
                                                   result.count.data());
    WARREN_TRY(gpu::check(cudaGetLastError(), "sum_tiles"));
    return queue_list(count, result, stream);
}

Errc queue_list(u64 count, const ScanResult& result, const gpu::Stream& stream) {
    const u32 tiles = static_cast<u32>((count + (1u << tile_shift) - 1) >> tile_shift);
    const u32 blocks = (tiles * 32 + list_threads - 1) / list_threads;
    list_tiles<<<blocks, list_threads, 0, stream.get()>>>(
        result.bits.data(), (count + 63) / 64, result.tile_counts.data(), tiles, result.list.data(),
        static_cast<u32>(result.list.count()));
    return gpu::check(cudaGetLastError(), "list_tiles");
}

}  // namespace warren::chunk::cuda
