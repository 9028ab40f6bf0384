// SPDX-License-Identifier: Apache-2.0
// Runs a batch of commands on the device. The commands and the data that they point to are one
// block of pinned memory; the replies and the commands' buffers are another. So a batch takes a
// copy, a launch and a copy, whatever the number of commands.
//
// Invariant: one thread uses a batch at a time.
#pragma once

#include <cstddef>
#include <span>

#include "base/idle_list.hpp"
#include "fs/core/store.hpp"
#include "fs/ops/command.hpp"
#include "gpu/buffer.hpp"
#include "gpu/stream.hpp"

namespace warren::cuda_engine {

class CommandBatch {
 public:
    /// Larger batches would take more memory without being faster.
    static constexpr std::size_t commands_max = 1u << 16;

    Errc open();

    /// Runs commands, at most commands_max, on `store` and waits for their replies. Errc::io if the
    /// device failed, no_memory if there is no room for them.
    Errc run(const core::Store& store, std::span<const ops::Command> commands,
             std::span<ops::Reply> replies);

 private:
    /// The sizes of the two blocks.
    struct Layout {
        u64 in_bytes;
        u64 out_bytes;
    };
    static Layout layout_of(std::span<const ops::Command> commands);
    Errc make_room(Layout layout);
    void stage(std::span<const ops::Command> commands);
    void fetch(std::span<const ops::Command> commands, std::span<ops::Reply> replies) const;

    gpu::Stream stream_;
    gpu::PinnedBuffer<std::byte> host_in_;
    gpu::PinnedBuffer<std::byte> host_out_;
    gpu::DeviceBuffer<std::byte> device_in_;
    gpu::DeviceBuffer<std::byte> device_out_;
};

/// A pool of batches, so that several threads can run commands concurrently. Thread-safe.
class CommandBatches {
 public:
    /// As CommandBatch::run(), with a batch that no other thread uses. Throws std::bad_alloc only
    /// before any command has run. Requires: the calling thread has selected the device.
    Errc run(const core::Store& store, std::span<const ops::Command> commands,
             std::span<ops::Reply> replies);

 private:
    IdleList<CommandBatch> idle_;
};

}  // namespace warren::cuda_engine
