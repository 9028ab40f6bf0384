// SPDX-License-Identifier: Apache-2.0
// One batch of commands on its way to the device and back. Commands with all that their pointers
// lead to travel as one block of pinned memory, replies with what was written into buffers as
// another: a copy, a launch and a copy, however many commands there are.
//
// Invariant: one thread uses a batch at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "fs/core/store.hpp"
#include "fs/ops/command.hpp"
#include "gpu/buffer.hpp"
#include "gpu/stream.hpp"

namespace warren::cuda_engine {

class CommandBatch {
 public:
    /// More commands than this at once only cost memory.
    static constexpr std::size_t commands_max = 1u << 16;

    Errc open();

    /// Runs commands, at most commands_max, on `store` and waits for their replies. Errc::io if the
    /// device failed, no_memory if there is no room for them.
    Errc run(const core::Store& store, std::span<const ops::Command> commands,
             std::span<ops::Reply> replies);

 private:
    /// Where the parts of the two blocks lie, counted once and then filled in the same order.
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

/// Batches for all who run commands at once, each used again and again. By any thread.
class CommandBatches {
 public:
    /// As CommandBatch::run(), in a batch that nobody else uses. Throws std::bad_alloc before
    /// anything has run.
    Errc run(int device, const core::Store& store, std::span<const ops::Command> commands,
             std::span<ops::Reply> replies);

 private:
    std::unique_ptr<CommandBatch> take(int device, Errc& code);
    void give(std::unique_ptr<CommandBatch> batch);

    std::mutex mutex_;
    std::vector<std::unique_ptr<CommandBatch>> idle_;  // that nobody uses now
    std::size_t made_ = 0;                             // for these there is room in idle_
};

}  // namespace warren::cuda_engine
