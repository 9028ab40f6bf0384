// SPDX-License-Identifier: Apache-2.0
// A block of threads copies one metadata block at a time over the bus, 16 bytes a thread.
#include "fs/engine/cuda/replica/device_image.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "base/check.hpp"
#include "fs/core/frame_bits.hpp"
#include "fs/engine/cuda/store/commit_kernels.hpp"
#include "fs/ops/commit_snapshot.hpp"
#include "gpu/device.hpp"
#include "gpu/failure.hpp"
#include "team/warp_team.hpp"

namespace warren::cuda_engine {
namespace {

constexpr u32 copy_threads = 256;
constexpr u64 copy_blocks_max = 528;
constexpr u64 part_blocks_min = 1024;  // of the changes that are brought back at a time
static_assert(copy_threads * sizeof(uint4) == format::block_size);

__device__ uint4* quads_at(const core::Store& image, u64 place) {
    std::byte* const at =
        ops::is_table_place(image, place)
            ? reinterpret_cast<std::byte*>(image.frame_table) + (place - image.frame_table_offset)
            : image.base + place;
    return reinterpret_cast<uint4*>(at);
}

__global__ void place_blocks(core::Store image, const u64* places, const format::Block* from,
                             u64 count) {
    for (u64 i = blockIdx.x; i < count; i += gridDim.x) {
        const u64 place = places[i];
        const u64 block = place / format::block_size;
        if (place % format::block_size == places_dropped) {
            if (threadIdx.x == 0) {
                device_atomic<u64>(image.resident[block / 64])
                    .fetch_and(~from[i].words[0], hd::memory_order_relaxed);
            }
            continue;
        }
        quads_at(image, place)[threadIdx.x] = reinterpret_cast<const uint4*>(&from[i])[threadIdx.x];
        if (threadIdx.x == 0) core::set_bit(image.resident, block);
    }
}

__global__ void bring_blocks(core::Store image, const u64* places, format::Block* to, u64 count) {
    for (u64 i = blockIdx.x; i < count; i += gridDim.x)
        reinterpret_cast<uint4*>(&to[i])[threadIdx.x] = quads_at(image, places[i])[threadIdx.x];
}

/// A thread for each run of blocks.
__global__ void shut_frames(core::Store image, const core::Run* runs, u64 count) {
    const u64 i = u64{blockIdx.x} * blockDim.x + threadIdx.x;
    if (i < count) shut_frame_of(image, runs[i]);
}
__global__ void offer_runs(core::Store image, const core::Run* runs, u64 count) {
    const u64 i = u64{blockIdx.x} * blockDim.x + threadIdx.x;
    if (i < count) offer_blocks(image, runs[i]);
}

/// A block of threads for each frame, a thread for each word of its bitmap.
__global__ void let_go_numbers(core::Store image) {
    hold_numbers(image, blockIdx.x, threadIdx.x, 0);
}
__global__ void offer_numbers_of(core::Store image, const FreeNumbers* numbers) {
    offer_numbers(image, numbers[blockIdx.x], threadIdx.x);
}
/// A warp for each block of each frame.
__global__ void show_new_blocks(core::Store image, const FreeNumbers* numbers) {
    const u64 warp =
        u64{blockIdx.x} * (blockDim.x / WarpTeam::width) + threadIdx.x / WarpTeam::width;
    show_new_block(WarpTeam(), image, numbers[warp / format::blocks_per_frame],
                   warp % format::blocks_per_frame);
}

}  // namespace

/// Calls `take()`, which allocates `bytes`, if so much may be taken.
template <class Take>
Errc DeviceImage::take_memory(u64 bytes, const Take& take) {
    if (!share_->grow(bytes)) {
        return gpu::fail(Errc::no_memory,
                         "the metadata do not fit in the memory of the GPU that may be taken");
    }
    const Errc code = take();
    if (code != Errc::ok) share_->shrink(bytes);
    return code;
}

/// Allocates a table of `count` zeroed values on the device and sets `pointer` to it.
template <class T>
Errc DeviceImage::make_table(gpu::DeviceBuffer<T>& table, T*& pointer, u64 count) {
    WARREN_TRY(take_memory(count * sizeof(T), [&] { return table.allocate(count); }));
    pointer = table.data();
    return stream_.fill(table.data(), 0, table.bytes());
}

Errc DeviceImage::open(const core::Store& host, int device, MemoryBudget* budget) {
    WARREN_CHECK(host.heads == nullptr);
    device_ = device;
    share_.emplace(budget);
    const gpu::DeviceScope scope(device);
    WARREN_TRY(scope.code());
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
    const gpu::DeviceScope scope(device_);
    WARREN_TRY(scope.code());
    const Stage& next = stages_[stage_ ^= 1];
    WARREN_TRY(next.is_free.wait());
    stage = {{next.places.data(), stage_blocks}, next.blocks.data()};
    return Errc::ok;
}

/// Maps memory for the frames of the blocks that are sent.
Errc DeviceImage::map_frames(const u64* places, u64 count) {
    for (u64 i = 0; i < count; ++i) {
        const u64 place = places[i];
        const bool is_dropped = place % format::block_size == places_dropped;
        if (is_dropped || ops::is_table_place(image_, place)) continue;
        const u64 frame = place / format::frame_size;
        if (has_memory_[frame]) continue;
        const auto map = [&] { return range_.map(frame * format::frame_size, format::frame_size); };
        WARREN_TRY(take_memory(format::frame_size, map));
        has_memory_[frame] = true;
    }
    return Errc::ok;
}

Errc DeviceImage::send(u64 count) {
    const gpu::DeviceScope scope(device_);
    WARREN_TRY(scope.code());
    WARREN_CHECK(count <= stage_blocks);
    const Stage& stage = stages_[stage_];
    WARREN_TRY(map_frames(stage.places.data(), count));
    place_blocks<<<static_cast<u32>(std::min(count, copy_blocks_max)), copy_threads, 0,
                   stream_.get()>>>(image_, stage.places.data(), stage.blocks.data(), count);
    WARREN_TRY(gpu::check(cudaGetLastError(), "place_blocks"));
    return stage.is_free.record(stream_);
}

Errc DeviceImage::finish(const ReplicaValues& values) {
    const gpu::DeviceScope scope(device_);
    WARREN_TRY(scope.code());
    core::StoreState& counters = *counters_.data();
    counters.metadata_frames_end = values.metadata_frames_end;
    counters.blocks_used = values.blocks_used;
    counters.inodes_used = values.inodes_used;
    WARREN_TRY(stream_.copy(state_.data(), counters_.data(), sizeof counters));
    return stream_.wait();
}

/// Makes the tables that only runs use. After a failure it fails again.
Errc DeviceImage::make_run_tables() {
    if (image_.dirty != nullptr) return Errc::ok;
    if (std::exchange(has_tried_run_tables_, true)) return Errc::no_memory;
    const u64 frame_words = image_.frame_count / 64 + 1;
    constexpr u64 kinds = std::size(decltype(image_.frames_with_space){});
    WARREN_TRY(make_table(overlays_, image_.overlays, image_.frame_count));
    WARREN_TRY(make_table(frames_, image_.frames_free, (2 + kinds) * frame_words));
    image_.dirty_frames = image_.frames_free + frame_words;
    for (u64 i = 0; i < kinds; ++i)
        image_.frames_with_space[i] = image_.frames_free + (2 + i) * frame_words;
    WARREN_TRY(cut_.allocate(1));
    WARREN_TRY(host_cut_.allocate(1));
    WARREN_TRY(is_listed_.open());
    for (gpu::Event& event : has_arrived_)
        WARREN_TRY(event.open());
    return make_table(dirty_, image_.dirty, image_.block_count() / 64 + 1);
}

Errc DeviceImage::prepare_changes(u64 blocks) {
    const gpu::DeviceScope scope(device_);
    WARREN_TRY(scope.code());
    WARREN_TRY(make_run_tables());
    if (const u64 missing = changed_places_.missing_bytes(blocks); missing != 0)
        WARREN_TRY(take_memory(missing, [&] { return changed_places_.grow(blocks); }));
    WARREN_TRY(host_places_.grow(blocks));
    return changed_.grow(blocks);
}

Errc DeviceImage::open_run(const RunRoom& room) {
    const gpu::DeviceScope scope(device_);
    WARREN_TRY(scope.code());
    for (const core::Run& run : room.blocks)
        WARREN_TRY(map_frames(&run.place, 1));
    for (const FreeNumbers& numbers : room.numbers) {
        const u64 place = numbers.frame * format::frame_size;
        WARREN_TRY(map_frames(&place, 1));
    }
    WARREN_TRY(room_blocks_.reserve(room.blocks.size()));
    WARREN_TRY(room_numbers_.reserve(room.numbers.size()));
    std::ranges::copy(room.blocks, room_blocks_.data());
    std::ranges::copy(room.numbers, room_numbers_.data());
    *counters_.data() = room.state;
    image_.reserve_blocks = room.reserve_blocks;
    WARREN_TRY(stream_.copy(state_.data(), counters_.data(), sizeof room.state));
    // None of the frames is free, dirty, or has room. A run that has failed leaves dirty marks.
    WARREN_TRY(stream_.fill(frames_.data(), 0, frames_.bytes()));
    WARREN_TRY(stream_.fill(dirty_.data(), 0, dirty_.bytes()));
    const auto end = static_cast<u32>(room.state.metadata_frames_end);
    if (end != 0) let_go_numbers<<<end, core::bitmap_words, 0, stream_.get()>>>(image_);
    const u64 runs = room.blocks.size();
    const auto grid = static_cast<u32>((runs + copy_threads - 1) / copy_threads);
    if (runs != 0) {
        shut_frames<<<grid, copy_threads, 0, stream_.get()>>>(image_, room_blocks_.data(), runs);
        offer_runs<<<grid, copy_threads, 0, stream_.get()>>>(image_, room_blocks_.data(), runs);
    }
    if (const auto frames = static_cast<u32>(room.numbers.size()); frames != 0) {
        const FreeNumbers* const numbers = room_numbers_.data();
        offer_numbers_of<<<frames, core::bitmap_words, 0, stream_.get()>>>(image_, numbers);
        constexpr u32 warps = copy_threads / WarpTeam::width;
        constexpr u32 blocks = format::blocks_per_frame;
        static_assert(blocks % warps == 0);
        show_new_blocks<<<frames*(blocks / warps), copy_threads, 0, stream_.get()>>>(image_,
                                                                                     numbers);
    }
    WARREN_TRY(gpu::check(cudaGetLastError(), "open_run"));
    return stream_.wait();
}

Errc DeviceImage::fetch_changes(ImageChanges& changes) {
    const gpu::DeviceScope scope(device_);
    WARREN_TRY(scope.code());
    const ops::CutArea area{changed_.data(), changed_places_.data(), changed_.count(), cut_.data()};
    WARREN_TRY(stream_.fill(cut_.data(), 0, cut_.bytes()));
    WARREN_TRY(launch_list(image_, area, stream_.get()));
    WARREN_TRY(stream_.copy(host_cut_.data(), cut_.data(), cut_.bytes()));
    WARREN_TRY(stream_.copy(counters_.data(), state_.data(), state_.bytes()));
    WARREN_TRY(stream_.wait());
    const u64 count = host_cut_.data()->count;
    if (count > area.capacity) return gpu::fail(Errc::io, "a run has changed too many blocks");
    WARREN_TRY(stream_.copy(host_places_.data(), changed_places_.data(), count * sizeof(u64)));
    WARREN_TRY(is_listed_.record(stream_));
    coming_ = count;
    arrived_ = 0;
    part_blocks_ = std::max(part_blocks_min, (count + parts_max - 1) / parts_max);
    for (u64 at = 0; at < count; at += part_blocks_) {
        const u64 blocks = std::min(part_blocks_, count - at);
        bring_blocks<<<static_cast<u32>(std::min(blocks, copy_blocks_max)), copy_threads, 0,
                       stream_.get()>>>(image_, changed_places_.data() + at, changed_.data() + at,
                                        blocks);
        WARREN_TRY(gpu::check(cudaGetLastError(), "bring_blocks"));
        WARREN_CHECK(at / part_blocks_ < parts_max);
        WARREN_TRY(has_arrived_[at / part_blocks_].record(stream_));
    }
    WARREN_TRY(is_listed_.wait());
    changes.places = {host_places_.data(), count};
    changes.blocks = changed_.data();
    changes.state = *counters_.data();
    return Errc::ok;
}

Result<u64> DeviceImage::await_changes() {
    const auto wait = [this]() -> Errc {
        const gpu::DeviceScope scope(device_);
        WARREN_TRY(scope.code());
        return has_arrived_[arrived_ / part_blocks_].wait();
    };
    if (await_failure_.code == Errc::ok && arrived_ < coming_) {
        if (wait() != Errc::ok) {
            await_failure_ = gpu::last_failure();
        } else {
            arrived_ = std::min(arrived_ + part_blocks_, coming_);
        }
    }
    if (await_failure_.code == Errc::ok) return arrived_;
    return gpu::fail(await_failure_.code, await_failure_.message);
}

}  // namespace warren::cuda_engine
