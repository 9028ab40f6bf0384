// SPDX-License-Identifier: Apache-2.0
// Digests of chunks in device memory, started while cuts are still being found: the callback of
// GpuChunker hands over ends, and the chunks between them are hashed on separate streams.
//
// Invariant: a warp gets chunks of about one length, since it takes as long as its longest.
#pragma once

#include <array>
#include <span>

#include "gpu/buffer.hpp"
#include "gpu/stream.hpp"
#include "warren/hash.hpp"

namespace warren::chunk::cuda {

class ChunkDigests {
 public:
    /// Room for `most_chunks`.
    Errc open(hash::Algorithm algorithm, u64 most_chunks);

    /// Begins a stream whose bytes are at `data` in device memory.
    void begin(const u8* data, u64 count);
    /// Queues what is new in `ends`, all ends so far; few chunks wait for more unless `is_last`.
    /// Errc::no_space if there are more than the room.
    Errc add(std::span<const u64> ends, bool is_last);
    /// Waits; `digests` are then those of all chunks, one behind the other, in pinned memory that
    /// the next begin() uses again.
    Errc finish(std::span<const u8>& digests);

 private:
    hash::Algorithm algorithm_ = hash::Algorithm::md5;
    const u8* data_ = nullptr;
    u64 data_bytes_ = 0;
    u64 done_ = 0;
    u64 most_ = 0;
    size_t turn_ = 0;
    // One batch does not fill a GPU: several run side by side.
    std::array<gpu::Stream, 8> streams_;
    std::array<gpu::DeviceBuffer<u32>, 8> begins_;  // of the lengths' classes, for each stream
    gpu::PinnedBuffer<u64> ends_;
    gpu::DeviceBuffer<u64> device_ends_;
    gpu::DeviceBuffer<u64> offsets_;  // by class, as are those that follow
    gpu::DeviceBuffer<u64> lengths_;
    gpu::DeviceBuffer<u32> chunks_;  // which chunk it is
    gpu::DeviceBuffer<u8> sorted_digests_;
    gpu::DeviceBuffer<u8> device_digests_;
    gpu::PinnedBuffer<u8> digests_;
};

}  // namespace warren::chunk::cuda
