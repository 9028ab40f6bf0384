// SPDX-License-Identifier: Apache-2.0
// A buffer cache in device memory (fs/core/head_table.hpp). The host puts blocks there that
// commands have missed.
//
// Invariant: one caller at a time, concurrently with any number of commands; see
// fs/ops/place_block.hpp.
#pragma once

#include <mutex>

#include "fs/ops/place_block.hpp"
#include "gpu/buffer.hpp"
#include "gpu/stream.hpp"

namespace warren::cuda_engine {

class DeviceMetaBuffer {
 public:
    /// Allocates memory for `blocks` blocks, all free, and sets it in `store`, whose other tables
    /// lie in device memory already.
    Errc open(u64 blocks, core::Store& store);

    /// See MetaBuffer::place_block().
    Errc place_block(const core::Store& store, u64 place, const format::Block& block,
                     ops::Evicted& evicted);
    /// See MetaBuffer::read_block().
    Errc read_block(const core::Store& store, u64 place, format::Block& block);

 private:
    /// Arguments and results of a kernel, in pinned memory.
    struct Exchange {
        format::Block block;
        ops::Evicted evicted;
        Errc code;
    };

    std::mutex mutex_;  // guards all below
    gpu::Stream stream_;
    gpu::DeviceBuffer<core::HeadTable> table_;
    gpu::DeviceBuffer<core::Head> heads_;
    gpu::DeviceBuffer<core::Bucket> buckets_;
    gpu::DeviceBuffer<format::Block> blocks_;
    gpu::DeviceBuffer<u32> hand_;
    gpu::PinnedBuffer<Exchange> exchange_;
};

}  // namespace warren::cuda_engine
