// SPDX-License-Identifier: Apache-2.0
// The memory for the CUDA engine's commit snapshots. The dirty blocks are copied within device
// memory, in a fraction of the time that the bus would need; only meanwhile do commands wait. The
// copies are sent to the host while commands run.
//
// Invariant: one commit at a time, and no bulk step while a snapshot is taken.
#pragma once

#include <span>
#include <vector>

#include "base/fair_lock.hpp"
#include "fs/engine/cuda/server/server.hpp"
#include "fs/engine/engine_memory.hpp"
#include "gpu/buffer.hpp"
#include "gpu/staging.hpp"

namespace warren::cuda_engine {

/// What a snapshot must wait for: commands and the resident server.
struct Givers {
    FairLock& commands;  // held shared until a command is answered
    ResidentServer& server;
};

class CommitArea {
 public:
    Errc open();

    /// See EngineMemory::cut().
    Errc cut(const core::Store& store, const Givers& givers, const std::function<void()>& at_rest,
             CommitSnapshot& cut);
    /// Copies the last snapshot to the host.
    Errc fetch(format::Block* blocks);

    /// See EngineMemory::release_cut().
    Errc release(const core::Store& store) const;
    /// See EngineMemory::publish().
    Errc publish(const core::Store& store, std::span<ops::CommittedFrame> frames,
                 std::span<const u64> empty_inode_frames);
    /// See EngineMemory::allow_generations().
    Errc allow_generations(const core::Store& store, u64 limit);
    /// Makes the store read-only: from now on no command applies.
    Errc forbid(const core::Store& store) const;

 private:
    Errc make_room(u64 blocks);
    Errc prepare(const core::Store& store);
    Errc take(const core::Store& store);
    Errc take_alone(const core::Store& store, const Givers& givers,
                    const std::function<void()>& at_rest, CommitSnapshot& cut);

    gpu::Staging staging_;
    const gpu::Stream& stream_ = staging_.stream();
    format::Block* blocks_ = nullptr;  // that of device_blocks_ or host_blocks_
    u64 capacity_ = 0;
    gpu::DeviceBuffer<format::Block> device_blocks_;
    gpu::PinnedBuffer<format::Block> host_blocks_;
    gpu::DeviceBuffer<u64> places_;
    gpu::DeviceBuffer<ops::CutHeader> device_header_;
    gpu::PinnedBuffer<ops::CutHeader> header_;
    gpu::PinnedBuffer<core::StoreState> state_;
    gpu::DeviceBuffer<ops::CommittedFrame> frames_;
    gpu::DeviceBuffer<u64> empty_;
};

}  // namespace warren::cuda_engine
