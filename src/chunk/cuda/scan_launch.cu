// SPDX-License-Identifier: Apache-2.0
// Selects the kernel for a rule, and turns bitmaps into lists: the scan has counted the candidates
// of each tile, a prefix sum determines where each tile's part begins, and a warp writes it.
#include "chunk/cuda/scan_launch.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "chunk/cuda/buzhash_kernel.cuh"
#include "chunk/cuda/gear_window.cuh"
#include "chunk/cuda/scan_kernel.cuh"
#include "chunk/rabin.hpp"
#include "chunk/select.hpp"
#include "chunk/tables.hpp"
#include "gpu/device.hpp"
#include "gpu/failure.hpp"
#include "hash/cuda/kernels.hpp"

namespace warren::chunk::cuda {

namespace {

// Few enough to fit beside any scan.
constexpr u32 sum_threads = 512;
constexpr u32 list_threads = 256;
constexpr u32 words_in_tile = (1u << tile_shift) / 64;

/// Inclusive prefix sum over the lanes of a warp.
__device__ u32 sum_up_to_lane(u32 sum) {
    for (u32 step = 1; step < 32; step *= 2) {
        const u32 other = __shfl_up_sync(~0u, sum, step);
        if (threadIdx.x % 32 >= step) sum += other;
    }
    return sum;
}

/// Replaces counts by the sums of the counts before them. One block; each thread takes adjacent
/// counts.
__global__ void sum_tiles(u32* counts, u32 tiles, u32* total) {
    __shared__ u32 warps[32];
    const u32 lane = threadIdx.x % 32;
    const u32 warp = threadIdx.x / 32;
    if (threadIdx.x < 32) warps[threadIdx.x] = 0;
    const u32 each = (tiles + sum_threads - 1) / sum_threads;
    const u32 begin = threadIdx.x * each < tiles ? threadIdx.x * each : tiles;
    const u32 end = begin + each < tiles ? begin + each : tiles;
    u32 own = 0;
    for (u32 tile = begin; tile < end; ++tile)
        own += counts[tile];
    const u32 sum = sum_up_to_lane(own);
    __syncthreads();
    if (lane == 31) warps[warp] = sum;
    __syncthreads();
    if (warp == 0) warps[lane] = sum_up_to_lane(warps[lane]);
    __syncthreads();
    u32 before = sum - own + (warp == 0 ? 0 : warps[warp - 1]);
    for (u32 tile = begin; tile < end; ++tile) {
        const u32 count = counts[tile];
        counts[tile] = before;
        before += count;
    }
    if (threadIdx.x == sum_threads - 1) *total = before;
}

/// Counts the bits of each tile, with one warp per tile.
__global__ void count_tiles(const u64* bits, u64 words, u32* counts, u32 tiles) {
    const u32 tile = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const u32 lane = threadIdx.x % 32;
    if (tile >= tiles) return;
    u32 count = 0;
    for (u32 row = lane; row < words_in_tile; row += 32) {
        const u64 index = static_cast<u64>(tile) * words_in_tile + row;
        if (index < words) count += static_cast<u32>(__popcll(bits[index]));
    }
    count = __reduce_add_sync(~0u, count);
    if (lane == 0) counts[tile] = count;
}

/// What list_tiles() reads and writes.
struct ListWork {
    const u64* bits;
    u64 words;
    const u32* begins;
    u32 tiles;
    u32* list;
    u32 most;
    u32 first_end;
    u32 stride;
};

/// Lists the candidates of each tile, with one warp per tile.
__global__ void list_tiles(ListWork work) {
    const u32 tile = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const u32 lane = threadIdx.x % 32;
    if (tile >= work.tiles) return;
    u32 at = work.begins[tile];
    for (u32 row = 0; row < words_in_tile; row += 32) {
        const u64 index = static_cast<u64>(tile) * words_in_tile + row + lane;
        u64 word = index < work.words ? work.bits[index] : 0;
        if (__ballot_sync(~0u, word != 0) == 0) continue;
        const u32 own = static_cast<u32>(__popcll(word));
        const u32 sum = sum_up_to_lane(own);
        for (u32 place = at + sum - own; word != 0; ++place, word &= word - 1) {
            const u32 bit = static_cast<u32>(__ffsll(static_cast<long long>(word))) - 1;
            if (place >= work.most) break;
            work.list[place] = (static_cast<u32>(index * 64) + bit) * work.stride + work.first_end;
        }
        at += __shfl_sync(~0u, sum, 31);
    }
}

/// The input from which fastcdc's flags are computed, and their output: the list of ends or another
/// one.
struct FlagWork {
    const u32* ends;
    const u32* total;
    u32 most;
    u32* list;
    DataRange data;
    const u64* entries;
    u64 mask;
    u64 early_mask;
};

/// Adds to each candidate flags for the masks that its window matches, with eight lanes per
/// candidate.
__global__ void flag_candidates(FlagWork work) {
    __shared__ u64 table[256];
    load_table(table, work.entries);
    const u32 listed = *work.total < work.most ? *work.total : work.most;
    const u32 each = gridDim.x * blockDim.x / window_lanes;
    const u32 own = (blockIdx.x * blockDim.x + threadIdx.x) / window_lanes;
    // All lanes of a warp take part, so the warp continues while one of its candidates exists.
    for (u32 at = own; at / 4 * 4 < listed; at += each) {
        const u32 end = at < listed ? work.ends[at] : 0;
        // Before the first whole window nothing is selected, whatever the flags.
        const WindowPart window(table, work.data, static_cast<i64>(end) - 64);
        if (at >= listed || window.lane() != window_lanes - 1) continue;
        const u64 hash = window.whole();
        work.list[at] = end | ((hash & work.mask) == 0 ? late_flag : 0) |
                        ((hash & work.early_mask) == 0 ? early_flag : 0);
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

/// The bits that are clear in the hash of every match.
u64 common_mask(const Rule& rule) {
    return rule.method == Method::gear ? rule.mask : rule.mask & rule.early_mask;
}

Errc launch_gear(const DeviceRule& rule, const ScanWork& work, const gpu::Stream& stream) {
    constexpr u32 threads = 512;
    const u64 mask = rule.raised(common_mask(rule.rule()));
    const u64 value = rule.raised(rule.rule().value);
    if (static_cast<u32>(mask) == 0) {
        return launch(GearScan<false>{rule.entries(), mask, value}, work, threads,
                      rule.multiprocessors(), stream);
    }
    return launch(GearScan<true>{rule.entries(), mask, value}, work, threads,
                  rule.multiprocessors(), stream);
}

Errc launch_rabin_as_known(const DeviceRule& rule, const ScanWork& work,
                           const gpu::Stream& stream) {
    const bool is_lbfs = degree(rule.rule().polynomial) == 63;
    const bool is_restic = degree(rule.rule().polynomial) == 53;
    if (rule.rule().window_bytes == 48) {
        return is_lbfs ? launch_rabin<48, 1>(rule, work, stream)
                       : launch_rabin<48, 0>(rule, work, stream);
    }
    return is_restic ? launch_rabin<64, 11>(rule, work, stream)
                     : launch_rabin<64, 0>(rule, work, stream);
}

Errc launch_buzhash(const DeviceRule& rule, ScanWork work, const gpu::Stream& stream) {
    constexpr u32 threads = 128;
    constexpr u32 memory = 256 * buzhash_copies * sizeof(u32);
    // Each run additionally reads its first window, so runs are long if there is much data.
    const u64 share = work.count / (rule.multiprocessors() * 512u) / 64 * 64;
    work.run_bytes = static_cast<u32>(std::clamp<u64>(share, 1024, 16384));
    const BuzhashScan scan{rule.buzhash_entries(), rule.rule().window_bytes,
                           static_cast<u32>(rule.rule().mask), static_cast<u32>(rule.rule().value)};
    const u64 runs = (work.count + work.run_bytes - 1) / work.run_bytes;
    const u32 blocks = static_cast<u32>((runs + threads - 1) / threads);
    buzhash_kernel<<<blocks, threads, memory, stream.get()>>>(scan, work);
    return gpu::check(cudaGetLastError(), "buzhash_kernel");
}

Errc launch_digests(const Rule& rule, const ScanStretch& stretch, const ScanResult& result,
                    const gpu::Stream& stream) {
    const BitPlaces places = bit_places(rule, stretch.position, stretch.count);
    if (places.count == 0) return Errc::ok;
    const hash::Windows windows{
        rule.method == Method::md5 ? hash::Algorithm::md5 : hash::Algorithm::sha1,
        rule.window_bytes, rule.stride_bytes};
    // The first window may begin before the stretch.
    const i64 first = static_cast<i64>(places.first_end) - static_cast<i64>(rule.window_bytes);
    const u64 size = static_cast<u64>(static_cast<i64>(stretch.count) - first);
    hash::WindowOutput output;
    output.bitmap = result.bits.data();
    output.match_mask = static_cast<u32>(rule.mask);
    WARREN_TRY(hash::cuda::hash_windows(windows.algorithm, hash::plan_windows(windows, size),
                                        stretch.bytes + first, places.count, output, true,
                                        stream.get()));
    const u64 words = (places.count + 63) / 64;
    const u32 tiles = static_cast<u32>((words + words_in_tile - 1) / words_in_tile);
    count_tiles<<<(tiles * 32 + list_threads - 1) / list_threads, list_threads, 0, stream.get()>>>(
        result.bits.data(), words, result.tile_counts.data(), tiles);
    return gpu::check(cudaGetLastError(), "count_tiles");
}

Errc launch_scan(const DeviceRule& rule, const ScanStretch& stretch, const ScanResult& result,
                 const gpu::Stream& stream) {
    // Short runs if there is little data, so that every warp has one.
    const u64 warps = rule.multiprocessors() * 20u;
    const u64 share = stretch.count / warps / 32 / 128 * 128;
    const u64 longest = rule.rule().method == Method::rabin ? 2048 : 1024;
    const u32 run_bytes = static_cast<u32>(std::clamp<u64>(share, 256, longest));
    const ScanWork work{stretch.bytes,      stretch.count,
                        result.bits.data(), result.tile_counts.data(),
                        run_bytes,          stretch.position > 0};
    switch (rule.rule().method) {
        case Method::gear:
        case Method::fastcdc:
            return launch_gear(rule, work, stream);
        case Method::rabin:
            return launch_rabin_as_known(rule, work, stream);
        case Method::buzhash:
            return launch_buzhash(rule, work, stream);
        case Method::md5:
        case Method::sha1:
            return launch_digests(rule.rule(), stretch, result, stream);
    }
    return Errc::invalid;
}

u32 tiles_of(u64 bits) {
    return static_cast<u32>((bits + (1u << tile_shift) - 1) >> tile_shift);
}

Errc queue_flags(const DeviceRule& rule, const ScanStretch& stretch, const ScanResult& result,
                 const gpu::Stream& stream) {
    const DataRange data{stretch.bytes, stretch.position > 0 ? -i64{64} : 0,
                         static_cast<i64>(stretch.count)};
    const FlagWork work{result.device_list.data(),
                        result.total.data(),
                        static_cast<u32>(result.device_list.count()),
                        result.is_for_device ? result.device_list.data() : result.list.data(),
                        data,
                        rule.entries(),
                        rule.raised(rule.rule().mask),
                        rule.raised(rule.rule().early_mask)};
    flag_candidates<<<candidate_blocks(rule, stretch.count), candidate_threads, 0, stream.get()>>>(
        work);
    return gpu::check(cudaGetLastError(), "flag_candidates");
}

}  // namespace

BitPlaces bit_places(const Rule& rule, u64 position, u64 count) {
    if (rule.method != Method::md5 && rule.method != Method::sha1) return {1, 1, count};
    const u64 window = rule.window_bytes;
    const u64 stride = rule.stride_bytes;
    const u64 least = position + 1 > window ? position + 1 - window : 0;
    const u64 first_end = (least + stride - 1) / stride * stride + window;
    if (first_end > position + count) return {1, stride, 0};
    return {first_end - position, stride, (position + count - first_end) / stride + 1};
}

bool DeviceRule::has_kernel(const Rule& rule) {
    constexpr int least_bits = 8;
    switch (rule.method) {
        case Method::rabin:
            return (rule.window_bytes == 48 || rule.window_bytes == 64) &&
                   degree(rule.polynomial) >= 40;
        case Method::fastcdc:
            return std::popcount(common_mask(rule)) >= least_bits;
        default:
            return true;
    }
}

Errc DeviceRule::open(const Rule& rule, const gpu::Stream& stream) {
    if (!has_kernel(rule)) return Errc::not_supported;
    rule_ = rule;
    WARREN_LET(count, gpu::multiprocessors());
    multiprocessors_ = *count;
    const auto& table = rule.method == Method::fastcdc ? fastcdc_table : gear_table;
    std::vector<u64> entries(table.begin(), table.end());
    const u64 masks = rule.mask | rule.early_mask;
    raise_ =
        rule.method != Method::rabin && masks != 0 ? static_cast<u32>(std::countl_zero(masks)) : 0;
    for (u64& entry : entries)
        entry <<= raise_;
    if (rule.method == Method::rabin) {
        const RabinTables tables = make_rabin_tables(rule.polynomial, rule.window_bytes);
        const u32 raise = 64 - degree(rule.polynomial);
        entries.resize(512);
        for (u64 byte = 0; byte < 256; ++byte) {
            // On the device the bits that leave at the top are shifted out, so only the remainder
            // is added.
            entries[byte] = (tables.append[byte] ^ (byte << tables.shift << 8)) << raise;
            entries[256 + byte] = tables.remove[byte] << raise;
        }
    }
    std::vector<u32> buzhash(buzhash_table.begin(), buzhash_table.end());
    for (u32& entry : buzhash)
        entry ^= rule.seed;
    WARREN_TRY(buzhash_entries_.allocate(buzhash.size()));
    WARREN_TRY(stream.copy(buzhash_entries_.data(), buzhash.data(), buzhash_entries_.bytes()));
    WARREN_TRY(entries_.allocate(entries.size()));
    WARREN_TRY(stream.copy(entries_.data(), entries.data(), entries_.bytes()));
    return stream.wait();
}

u32 candidate_blocks(const DeviceRule& rule, u64 bytes) {
    // One block per 8 KiB, in which a block processes 32 candidates at a time; not more than fill a
    // device.
    return static_cast<u32>(std::clamp<u64>(bytes >> 13, 1, rule.multiprocessors() * u64{8}));
}

u64 most_listed(u64 most_bytes) {
    return most_bytes / 128 + 64;
}

Errc ScanResult::allocate(const Rule& rule, u64 most_bytes, bool for_device) {
    is_for_device = for_device;
    const u64 room = most_listed(most_bytes);
    WARREN_TRY(bits.allocate((most_bytes + 127) / 128 * 2));
    WARREN_TRY(tile_counts.allocate((most_bytes >> tile_shift) + 1));
    WARREN_TRY(total.allocate(1));
    // Fastcdc's flags are computed on the device, whether the host or the device reads the list.
    if (for_device || rule.method == Method::fastcdc) WARREN_TRY(device_list.allocate(room));
    if (!for_device) WARREN_TRY(list.allocate(room));
    return count.allocate(1);
}

Errc queue_scan(const DeviceRule& rule, const ScanStretch& stretch, const ScanResult& result,
                const gpu::Stream& stream) {
    const u64 bits = bit_places(rule.rule(), stretch.position, stretch.count).count;
    WARREN_TRY(stream.fill(result.tile_counts.data(), 0, result.tile_counts.bytes()));
    WARREN_TRY(launch_scan(rule, stretch, result, stream));
    WARREN_TRY(queue_sums(result.tile_counts.data(), tiles_of(bits), result.total.data(), stream));
    WARREN_TRY(stream.copy(result.count.data(), result.total.data(), sizeof(u32)));
    return queue_list(rule, stretch, result, stream);
}

Errc queue_list(const DeviceRule& rule, const ScanStretch& stretch, const ScanResult& result,
                const gpu::Stream& stream) {
    const BitPlaces places = bit_places(rule.rule(), stretch.position, stretch.count);
    if (places.count == 0) return Errc::ok;
    const bool is_fastcdc = rule.rule().method == Method::fastcdc;
    ListWork work{};
    work.bits = result.bits.data();
    work.words = (places.count + 63) / 64;
    work.begins = result.tile_counts.data();
    work.tiles = tiles_of(places.count);
    const bool is_on_device = result.is_for_device || is_fastcdc;
    work.list = is_on_device ? result.device_list.data() : result.list.data();
    work.most = static_cast<u32>(is_on_device ? result.device_list.count() : result.list.count());
    work.first_end = static_cast<u32>(places.first_end);
    work.stride = static_cast<u32>(places.stride);
    const u32 blocks = (work.tiles * 32 + list_threads - 1) / list_threads;
    list_tiles<<<blocks, list_threads, 0, stream.get()>>>(work);
    WARREN_TRY(gpu::check(cudaGetLastError(), "list_tiles"));
    return is_fastcdc ? queue_flags(rule, stretch, result, stream) : Errc::ok;
}

Errc queue_sums(u32* numbers, u32 count, u32* total, const gpu::Stream& stream) {
    sum_tiles<<<1, sum_threads, 0, stream.get()>>>(numbers, count, total);
    return gpu::check(cudaGetLastError(), "sum_tiles");
}

}  // namespace warren::chunk::cuda
