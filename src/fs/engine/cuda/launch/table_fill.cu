// SPDX-License-Identifier: Apache-2.0
// The kernels that make a table: a warp for each bundle of the output. A scan's output is read
// twice; both take a small part of the time in which it was written.
#include "fs/engine/cuda/launch/table_fill.hpp"

#include <cuda_runtime_api.h>

#include <cub/device/device_scan.cuh>

#include "gpu/failure.hpp"
#include "team/warp_team.hpp"

namespace warren::cuda_engine {
namespace {

using namespace bulk;

constexpr u32 threads = 256;
constexpr u32 blocks = 132 * 8;  // fill an H200; each warp takes several bundles

/// Calls `work(maker, i)` for each i below `count`, by a warp.
template <class Work>
__device__ void for_each_by_warp(const TableSource& source, u64 count, const Work& work) {
    const u64 thread = u64{blockIdx.x} * blockDim.x + threadIdx.x;
    const u64 warps = u64{gridDim.x} * blockDim.x / WarpTeam::width;
    const TableMaker<WarpTeam> maker({}, source);
    for (u64 i = thread / WarpTeam::width; i < count; i += warps)
        work(maker, i);
}
__device__ bool is_first_thread() {
    return blockIdx.x == 0 && threadIdx.x == 0;
}

__global__ void note_directories(const __grid_constant__ TableSource source) {
    for_each_by_warp(source, source.bundle_count,
                     [](const auto& maker, u64 i) { maker.note_directories(i); });
}

__global__ void note_paths(const __grid_constant__ TableSource source) {
    const u64 all = u64{gridDim.x} * blockDim.x;
    for (u64 i = u64{blockIdx.x} * blockDim.x + threadIdx.x; i < source.directory_count; i += all)
        TableMaker<ThreadTeam>({}, source).note_path(i);
}

/// The size of the root, of each bundle, and 0, whose place is for the sum.
__global__ void measure_rows(const __grid_constant__ TableSource source, ScanTableSize* sizes) {
    for_each_by_warp(source, source.bundle_count, [&](const auto& maker, u64 i) {
        const ScanTableSize size = maker.measure(i);
        if (threadIdx.x % WarpTeam::width == 0) sizes[1 + i] = size;
    });
    if (!is_first_thread()) return;
    sizes[0] = TableMaker<ThreadTeam>({}, source).measure_root();
    sizes[1 + source.bundle_count] = {};
}

__global__ void write_rows(const __grid_constant__ TableSource source,
                           const __grid_constant__ ScanTable table, const ScanTableSize* before) {
    for_each_by_warp(source, source.bundle_count,
                     [&](const auto& maker, u64 i) { maker.write(table, i, before[1 + i]); });
    if (!is_first_thread()) return;
    TableMaker<ThreadTeam>({}, source).write_root(table, before[1 + source.bundle_count]);
}

struct Sum {
    WARREN_HD ScanTableSize operator()(const ScanTableSize& a, const ScanTableSize& b) const {
        return sum_of(a, b);
    }
};

Errc launched(const char* name) {
    return gpu::check(cudaGetLastError(), name);
}

}  // namespace

Errc TableFill::measure(const gpu::Stream& stream, const TableSource& source,
                        ScanTableSize& whole) {
    if (source.ways != nullptr) {
        note_directories<<<blocks, threads, 0, stream.get()>>>(source);
        WARREN_TRY(launched("note_directories"));
        note_paths<<<blocks, threads, 0, stream.get()>>>(source);
        WARREN_TRY(launched("note_paths"));
    }
    measure_rows<<<blocks, threads, 0, stream.get()>>>(source, sizes_.data());
    WARREN_TRY(launched("measure_rows"));
    const u64 count = source.bundle_count + 2;
    const auto sum = [&](std::byte* memory, std::size_t& bytes) {
        return gpu::check(
            cub::DeviceScan::ExclusiveScan(memory, bytes, sizes_.data(), sizes_.data(), Sum{},
                                           ScanTableSize{}, static_cast<i64>(count), stream.get()),
            "summing rows up");
    };
    std::size_t bytes = 0;
    WARREN_TRY(sum(nullptr, bytes));
    WARREN_TRY(grow(memory_, bytes));
    WARREN_TRY(sum(memory_.data(), bytes));
    WARREN_TRY(whole_.reserve(1));
    WARREN_TRY(stream.copy(whole_.data(), sizes_.data() + count - 1, sizeof(ScanTableSize)));
    WARREN_TRY(stream.wait());
    whole = *whole_.data();
    return Errc::ok;
}

Errc TableFill::fill(const gpu::Stream& stream, const ScanRef& ref, u64 written, u64 directories,
                     const ScanCall& call) {
    const ScanTableOrder& order = *call.table;
    TableSource source{};
    source.output = ref.output;
    source.bundles = ref.bundles;
    source.bundle_count = written_bundles(written);
    source.directories = ref.directories;
    source.directory_count = directories;
    source.path_length = order.path.size();
    source.root_name = order.path.rfind('/') + 1;
    source.root = call.root_attributes;
    source.files = call.plan.files;
    WARREN_TRY(grow(sizes_, source.bundle_count + 2));
    WARREN_TRY(grow(path_, order.path.size()));
    source.path = path_.data();
    if (order.wants_paths) {
        WARREN_TRY(grow(ways_, directories));
        source.ways = ways_.data();
    }
    WARREN_TRY(stream.copy(path_.data(), order.path.data(), order.path.size()));
    ScanTableSize whole;
    WARREN_TRY(measure(stream, source, whole));
    int gpu = 0;
    WARREN_TRY(gpu::check(cudaGetDevice(&gpu), "cudaGetDevice"));
    ScanTable table;
    WARREN_TRY(order.make(gpu, whole, table));
    write_rows<<<blocks, threads, 0, stream.get()>>>(source, table, sizes_.data());
    WARREN_TRY(launched("write_rows"));
    return stream.wait();
}

}  // namespace warren::cuda_engine
