// SPDX-License-Identifier: Apache-2.0
// Digests of chunks in device memory, begun while cuts are still being found: the callback of
// GpuChunker passes ends, and the chunks between them are hashed on separate streams.
//
// Invariant: a warp gets chunks of similar length, since it takes as long as its longest chunk.
#pragma once

#include <array>
#include <span>

#include "gpu/buffer.hpp"
#include "gpu/stream.hpp"
#include "warren/hash.hpp"

namespace warren::chunk::cuda {

class ChunkDigests {
 public:
    /// Allocates room for `most_chunks`.
    Errc open(hash::Algorithm algorithm, u64 most_chunks);

    /// Begins a stream whose `count` bytes are at `data` in device memory.
    void begin(const u8* data, u64 count);
    /// Queues the chunks that are new in `ends`, which has all ends so far. A small number of
    /// chunks waits for more unless `is_last`. Errc::no_space if there are more than open()
    /// allocated room for.
    Errc add(std::span<const u64> ends, bool is_last);
    /// Waits for the digests. `digests` then refers to those of all chunks, one after the other, in
    /// pinned memory that is overwritten after the next begin().
    Errc finish(std::span<const u8>& digests);

 private:
    hash::Algorithm algorithm_ = hash::Algorithm::md5;
    const u8* data_ = nullptr;
    u64 data_bytes_ = 0;
    u64 done_ = 0;
    u64 most_ = 0;
    size_t turn_ = 0;
    // One batch does not fill a GPU, so several run in parallel.
    std::array<gpu::Stream, 8> streams_;
    std::array<gpu::DeviceBuffer<u32>, 8> begins_;  // where each class begins, per stream
    gpu::PinnedBuffer<u64> ends_;
    gpu::DeviceBuffer<u64> device_ends_;
    gpu::DeviceBuffer<u64> offsets_;  // this and the following are sorted by class
    gpu::DeviceBuffer<u64> lengths_;
    gpu::DeviceBuffer<u32> chunks_;  // number of the chunk
    gpu::DeviceBuffer<u8> sorted_digests_;
    gpu::DeviceBuffer<u8> device_digests_;
    gpu::PinnedBuffer<u8> digests_;
};

}  // namespace warren::chunk::cuda
