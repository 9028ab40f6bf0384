// SPDX-License-Identifier: Apache-2.0
// Copies use coalesced accesses of 16 bytes a thread, so they run at the speed of device memory, or
// of the bus for pinned memory. No command runs during list_dirty() and gather_blocks().
#include "fs/engine/cuda/store/device_kernels.hpp"
#include "fs/ops/show_block.hpp"
#include "gpu/failure.hpp"
#include "team/team.hpp"

namespace warren::cuda_engine {
namespace {

constexpr u32 threads_per_block = 256;
constexpr u32 blocks_max = 528;
constexpr u32 quads_per_block = format::block_size / sizeof(uint4);

u32 blocks_for(u64 threads) {
    const u64 blocks = (threads + threads_per_block - 1) / threads_per_block;
    return static_cast<u32>(blocks < blocks_max ? blocks : blocks_max);
}

__global__ void list_dirty_kernel(core::Store store, u64 words, u64 table_bytes, u64* places,
                                  u64 capacity, u64* count) {
    const u64 threads = u64{gridDim.x} * blockDim.x;
    for (u64 w = u64{blockIdx.x} * blockDim.x + threadIdx.x; w < words; w += threads) {
        for (u64 bits = relaxed_load(store.dirty[w]); bits != 0; bits &= bits - 1) {
            const u64 block = w * 64 + static_cast<u64>(hd::countr_zero(bits));
            const u64 place = block * format::block_size;
            if (place - store.frame_table_offset < table_bytes) continue;
            const u64 index = device_atomic<u64>(*count).fetch_add(1, hd::memory_order_relaxed);
            if (index < capacity) places[index] = place;
        }
    }
}

__global__ void gather_kernel(core::Store store, const u64* places, u64 count, format::Block* to) {
    for (u64 i = blockIdx.x; i < count; i += gridDim.x) {
        const auto* from = reinterpret_cast<const uint4*>(store.base + places[i]);
        reinterpret_cast<uint4*>(&to[i])[threadIdx.x] = from[threadIdx.x];
    }
}

/// ops::show_block() by one block of threads.
__global__ void publish_kernel(core::Store store, u64 place, const format::Block* from) {
    __shared__ ops::Showing showing;
    if (threadIdx.x == 0) showing = ops::begin_showing(store, place);
    __syncthreads();
    if (!showing.is_due) return;
    auto* target = reinterpret_cast<u64*>(store.base + place);
    for (u32 i = threadIdx.x; i < format::block_size / 8; i += blockDim.x)
        relaxed_store(target[i], from->words[i]);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) ops::end_showing(store, place, showing);
}

}  // namespace

Errc list_dirty(const core::Store& store, u64 frames, u64 table_bytes, u64* places, u64 capacity,
                u64* count, cudaStream_t stream) {
    const u64 words = frames * (format::blocks_per_frame / 64);
    list_dirty_kernel<<<blocks_for(words), threads_per_block, 0, stream>>>(
        store, words, table_bytes, places, capacity, count);
    return gpu::check(cudaGetLastError(), "list_dirty");
}

Errc gather_blocks(const core::Store& store, const u64* places, u64 count, format::Block* to,
                   cudaStream_t stream) {
    static_assert(quads_per_block == threads_per_block);
    const u32 blocks = static_cast<u32>(count < blocks_max ? count : blocks_max);
    gather_kernel<<<blocks, threads_per_block, 0, stream>>>(store, places, count, to);
    return gpu::check(cudaGetLastError(), "gather_blocks");
}

Errc publish_block(const core::Store& store, u64 place, const format::Block* from,
                   cudaStream_t stream) {
    publish_kernel<<<1, threads_per_block, 0, stream>>>(store, place, from);
    return gpu::check(cudaGetLastError(), "publish_block");
}

}  // namespace warren::cuda_engine
