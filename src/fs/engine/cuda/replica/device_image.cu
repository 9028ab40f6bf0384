// SPDX-License-Identifier: Apache-2.0
// A block of threads copies one metadata block at a time over the bus, 16 bytes a thread.
#include "fs/engine/cuda/replica/device_image.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "fs/core/frame_bits.hpp"
#include "fs/ops/commit_snapshot.hpp"
#include "gpu/device.hpp"
#include "gpu/failure.hpp"

namespace warren::cuda_engine {
namespace {

constexpr u32 copy_threads = 256;
constexpr u64 copy_blocks_max = 528;
static_assert(copy_threads * sizeof(uint4) == format::block_size);

__global__ void place_blocks(core::Store image, const u64* places, const format::Block* from,
                             u64 count) {
    for (u64 i = blockIdx.x; i < count; i += gridDim.x) {
        const u64 place = places[i];
        const u64 block = place / format::block_size;
        if (place % format::block_size == place_dropped) {
            if (threadIdx.x == 0) core::clear_bit(image.resident, block);
            continue;
        }
        std::byte* const target = ops::is_table_place(image, place)
                                      ? reinterpret_cast<std::byte*>(image.frame_table) +
                                            (place - image.frame_table_offset)
                                      : image.base + place;
        reinterpret_cast<uint4*>(target)[threadIdx.x] =
            reinterpret_cast<const uint4*>(&from[i])[threadIdx.x];
        if (threadIdx.x == 0) core::set_bit(image.resident, block);
    }
}

}  // namespace

/// Counts memory that is about to be taken.
Errc DeviceImage::take_memory(u64 bytes) {
    if (share_->grow(bytes)) return Errc::ok;
    return gpu::fail(Errc::no_memory,
                     "the metadata do not fit in the memory that device_memory= allows");
}

/// Allocates a table of `count` zeroed values on the device and sets `pointer` to it.
template <class T>
Errc DeviceImage::make_table(gpu::DeviceBuffer<T>& table, T*& pointer, u64 count) {
    WARREN_TRY(take_memory(count * sizeof(T)));
    WARREN_TRY(table.allocate(count));
    pointer = table.data();
    return stream_.fill(table.data(), 0, table.bytes());
}

Errc DeviceImage::open(const core::Store& host, int device, MemoryBudget* budget) {
    WARREN_CHECK(host.heads == nullptr);
    device_ = device;
    share_.emplace(budget);
    WARREN_TRY(gpu::use_device(device));
    WARREN_TRY(stream_.open());
    image_.size_bytes = host.size_bytes;
    image_.frame_count = host.frame_count;
    image_.hash_key[0] = host.hash_key[0];
    image_.hash_key[1] = host.hash_key[1];
    image_.hash_mask = host.hash_mask;
    image_.root_inode = host.root_inode;
    image_.orphan_directory = host.orphan_directory;
    image_.frame_table_offset = host.frame_table_offset;
    WARREN_TRY(make_table(state_, image_.state, 1));
    WARREN_TRY(
        make_table(frame_table_, image_.frame_table, ops::table_bytes(host) / format::block_size));
    WARREN_TRY(make_table(versions_, image_.versions, core::version_stripes));
    WARREN_TRY(make_table(resident_, image_.resident, host.block_count() / 64 + 1));
    WARREN_TRY(range_.reserve(host.size_bytes));
    image_.base = range_.data();
    has_memory_.assign(host.frame_count, false);
    WARREN_TRY(counters_.allocate(1));
    std::memset(counters_.data(), 0, counters_.bytes());
    for (Stage& stage : stages_) {
        WARREN_TRY(stage.places.allocate(stage_blocks));
        WARREN_TRY(stage.blocks.allocate(stage_blocks));
        WARREN_TRY(stage.is_free.open());
    }
    return stream_.wait();
}

Errc DeviceImage::open_stage(ReplicaStage& stage) {
    WARREN_TRY(gpu::use_device(device_));
    const Stage& next = stages_[stage_ ^= 1];
    WARREN_TRY(next.is_free.wait());
    stage = {{next.places.data(), stage_blocks}, next.blocks.data()};
    return Errc::ok;
}

/// Maps memory for the frames of the blocks that are sent.
Errc DeviceImage::map_frames(const u64* places, u64 count) {
    for (u64 i = 0; i < count; ++i) {
        const u64 place = places[i];
        const bool is_dropped = place % format::block_size == place_dropped;
        if (is_dropped || ops::is_table_place(image_, place)) continue;
        const u64 frame = place / format::frame_size;
        if (has_memory_[frame]) continue;
        WARREN_TRY(take_memory(format::frame_size));
        WARREN_TRY(range_.map(frame * format::frame_size, format::frame_size));
        has_memory_[frame] = true;
    }
    return Errc::ok;
}

Errc DeviceImage::send(u64 count) {
    WARREN_TRY(gpu::use_device(device_));
    WARREN_CHECK(count <= stage_blocks);
    const Stage& stage = stages_[stage_];
    WARREN_TRY(map_frames(stage.places.data(), count));
    place_blocks<<<static_cast<u32>(std::min(count, copy_blocks_max)), copy_threads, 0,
                   stream_.get()>>>(image_, stage.places.data(), stage.blocks.data(), count);
    WARREN_TRY(gpu::check(cudaGetLastError(), "place_blocks"));
    return stage.is_free.record(stream_);
}

Errc DeviceImage::finish(const ReplicaValues& values) {
    WARREN_TRY(gpu::use_device(device_));
    core::StoreState& counters = *counters_.data();
    counters.metadata_frames_end = values.metadata_frames_end;
    counters.blocks_used = values.blocks_used;
    counters.inodes_used = values.inodes_used;
    WARREN_TRY(stream_.copy(state_.data(), counters_.data(), sizeof counters));
    return stream_.wait();
}

}  // namespace warren::cuda_engine
