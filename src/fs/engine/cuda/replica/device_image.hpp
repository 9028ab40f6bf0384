// SPDX-License-Identifier: Apache-2.0
// The image of a replica in a GPU's memory. Blocks lie at the addresses that they have in the
// volume, in one reserved range, in which frames get memory when their first block arrives.
//
// Blocks are staged in pinned memory, from which a kernel copies them to their places: while it
// copies one stage, the next is filled. The store of the image has what readers use: blocks and
// their resident bits, the frame table, version words that nobody locks, and a few counters. The
// other tables are for runs that change it; what these have changed is copied to pinned memory.
#pragma once

#include <optional>
#include <vector>

#include "base/memory_budget.hpp"
#include "fs/engine/replica/replica_memory.hpp"
#include "fs/ops/commit_snapshot.hpp"
#include "gpu/buffer.hpp"
#include "gpu/device.hpp"
#include "gpu/reserved_range.hpp"
#include "gpu/stream.hpp"
#include "warren/failure.hpp"

namespace warren::cuda_engine {

class DeviceImage : public ReplicaMemory {
 public:
    /// By any thread.
    ~DeviceImage() override { closing_.emplace(device_); }

    /// Makes an empty image for the volume of `host` on GPU `device`, within `budget`, which
    /// outlives it; null: unlimited. Errc::no_memory if more is needed, now or when blocks are
    /// sent; the reason is the calling thread's gpu::last_failure().
    Errc open(const core::Store& host, int device, MemoryBudget* budget);

    Errc open_stage(ReplicaStage& stage) override;
    Errc send(u64 count) override;
    Errc finish(const ReplicaValues& values) override;
    const core::Store& image() const override { return image_; }
    Errc prepare_changes(u64 blocks) override;
    Errc open_run(const RunRoom& room) override;
    Errc fetch_changes(ImageChanges& changes) override;
    Result<u64> await_changes() override;

 private:
    static constexpr u64 stage_blocks = 4096;
    static constexpr u64 parts_max = 8;  // in which changes are brought back

    struct Stage {
        gpu::PinnedBuffer<u64> places;
        gpu::PinnedBuffer<format::Block> blocks;
        gpu::Event is_free;
    };

    template <class T>
    Errc make_table(gpu::DeviceBuffer<T>& table, T*& pointer, u64 count);
    template <class Take>
    Errc take_memory(u64 bytes, const Take& take);
    Errc map_frames(const u64* places, u64 count);
    Errc make_run_tables();

    // Selects the device while the other members are destroyed, and therefore comes first.
    std::optional<gpu::DeviceScope> closing_;
    core::Store image_{};
    int device_ = 0;
    std::optional<MemoryShare> share_;  // what is taken on the device; since open()
    gpu::Stream stream_;
    gpu::ReservedRange range_;
    std::vector<bool> has_memory_;  // by frame
    gpu::DeviceBuffer<core::StoreState> state_;
    gpu::DeviceBuffer<format::FrameTableBlock> frame_table_;
    gpu::DeviceBuffer<u64> versions_;
    gpu::DeviceBuffer<u64> resident_;
    gpu::PinnedBuffer<core::StoreState> counters_;
    Stage stages_[2];
    u32 stage_ = 0;  // which is filled
    // For runs that change the image; made before the first one.
    bool has_tried_run_tables_ = false;
    gpu::DeviceBuffer<core::FrameOverlay> overlays_;
    gpu::DeviceBuffer<u64> frames_;  // the bitmaps with a bit for each frame
    gpu::DeviceBuffer<u64> dirty_;
    gpu::DeviceBuffer<u64> changed_places_;
    gpu::DeviceBuffer<ops::CutHeader> cut_;
    gpu::PinnedBuffer<ops::CutHeader> host_cut_;
    gpu::PinnedBuffer<u64> host_places_;
    gpu::PinnedBuffer<format::Block> changed_;
    gpu::Event is_listed_;
    gpu::Event has_arrived_[parts_max];
    u64 coming_ = 0;  // changed blocks
    u64 arrived_ = 0;
    u64 part_blocks_ = 0;
    Failure await_failure_;
    gpu::PinnedBuffer<core::Run> room_blocks_;
    gpu::PinnedBuffer<FreeNumbers> room_numbers_;
};

}  // namespace warren::cuda_engine
