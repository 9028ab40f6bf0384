// SPDX-License-Identifier: Apache-2.0
// A meta buffer in device memory: the heads map of fs/core/head_table.hpp, where the host puts
// blocks that commands ask for.
//
// Invariant: one caller at a time, beside any number of commands; see fs/ops/place_block.hpp.
#pragma once

#include <mutex>

#include "fs/ops/place_block.hpp"
#include "gpu/buffer.hpp"
#include "gpu/stream.hpp"

namespace warren::cuda_engine {

class DeviceMetaBuffer {
 public:
    /// Takes the memory for `blocks` blocks, all free, and shows it to `store`, whose other tables
    /// are those of the device.
    Errc open(u64 blocks, core::Store& store);

    u64 blocks() const { return blocks_.count(); }

    /// See MetaBuffer::place_block().
    Errc place_block(const core::Store& store, u64 place, const format::Block& block,
                     ops::Evicted& evicted);
    /// See MetaBuffer::read_block().
    Errc read_block(const core::Store& store, u64 place, format::Block& block);

 private:
    /// What the host and a kernel tell each other, in pinned memory.
    struct Exchange {
        format::Block block;
        ops::Evicted evicted;
        Errc code;
    };

    std::mutex mutex_;  // for all of this
    gpu::Stream stream_;
    gpu::DeviceBuffer<core::HeadTable> table_;
    gpu::DeviceBuffer<core::Head> heads_;
    gpu::DeviceBuffer<core::Bucket> buckets_;
    gpu::DeviceBuffer<format::Block> blocks_;
    gpu::DeviceBuffer<u32> hand_;
    gpu::PinnedBuffer<Exchange> exchange_;
};

}  // namespace warren::cuda_engine
