// SPDX-License-Identifier: Apache-2.0
// Where the CUDA engine keeps the copies of a commit: device memory that takes them in a fraction
// of the time that the bus would need, so that commands wait for no more than that. From there they
// go to the host while commands run.
//
// Invariant: one commit at a time, and no bulk step while a cut is taken.
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "base/fair_lock.hpp"
#include "fs/engine/cuda/server/server.hpp"
#include "fs/engine/engine_memory.hpp"
#include "gpu/buffer.hpp"
#include "gpu/stream.hpp"

namespace warren::cuda_engine {

/// Those whose commands a cut has to wait for.
struct Givers {
    FairLock& commands;  // shared for as long as a command has no answer
    ResidentServer& server;
};

class CommitArea {
 public:
    Errc open();

    /// See EngineMemory::cut().
    Errc cut(const core::Store& store, const Givers& givers, const std::function<void()>& at_rest,
             CommitSnapshot& cut);
    // Of the last cut.
    u64 blocks() const { return blocks_cut_.load(std::memory_order_relaxed); }
    /// For so long commands waited.
    float held_ms() const {
        return static_cast<float>(held_ns_.load(std::memory_order_relaxed)) / 1e6f;
    }
    /// Brings the copies to the host.
    Errc fetch(format::Block* blocks) const;

    /// See EngineMemory::release_cut().
    Errc release(const core::Store& store) const;
    /// See EngineMemory::publish().
    Errc publish(const core::Store& store, std::span<ops::CommittedFrame> frames,
                 std::span<const u64> empty_inode_frames);
    /// See EngineMemory::allow_generations().
    Errc allow_generations(const core::Store& store, u64 limit);
    /// Lets no command apply anything any more.
    Errc forbid(const core::Store& store) const;

 private:
    Errc make_room(u64 blocks);
    Errc prepare(const core::Store& store);
    Errc take(const core::Store& store);
    Errc take_alone(const core::Store& store, const Givers& givers,
                    const std::function<void()>& at_rest, CommitSnapshot& cut);

    gpu::Stream stream_;
    format::Block* blocks_ = nullptr;  // the one or the other
    u64 capacity_ = 0;
    gpu::DeviceBuffer<format::Block> device_blocks_;
    gpu::PinnedBuffer<format::Block> host_blocks_;
    gpu::DeviceBuffer<u64> places_;
    gpu::DeviceBuffer<ops::CutHeader> device_header_;
    gpu::PinnedBuffer<ops::CutHeader> header_;
    gpu::PinnedBuffer<core::StoreState> state_;
    gpu::PinnedBuffer<u32> one_;
    gpu::PinnedBuffer<u64> limit_;
    gpu::PinnedBuffer<format::Block> staging_;  // two slices
    gpu::Event slice_done_[2];
    gpu::DeviceBuffer<ops::CommittedFrame> frames_;
    gpu::DeviceBuffer<u64> empty_;
    std::atomic<u64> blocks_cut_{0};
    std::atomic<u64> held_ns_{0};
};

}  // namespace warren::cuda_engine
