// SPDX-License-Identifier: Apache-2.0
// Digests of chunks in device memory, begun while cuts are still being found: the callback of
// GpuChunker hands over ends, and what is between them is hashed on streams of its own.
//
// Invariant: a warp gets chunks of about one length, since it takes as long as its longest.
#pragma once

#include <array>
#include <span>
#include <vector>

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
    /// Waits, and puts the digests one behind the other in the order of the chunks.
    Errc finish(std::span<u8> digests);

 private:
    hash::Algorithm algorithm_ = hash::Algorithm::md5;
    const u8* data_ = nullptr;
    u64 data_bytes_ = 0;
    u64 done_ = 0;
    size_t turn_ = 0;
    // One batch does not fill a GPU: several run side by side.
    std::array<gpu::Stream, 8> streams_;
    gpu::PinnedBuffer<u64> places_;  // offsets of all chunks, then lengths
    gpu::DeviceBuffer<u64> device_places_;
    gpu::DeviceBuffer<u8> device_digests_;
    gpu::PinnedBuffer<u8> digests_;
    std::vector<u32> order_;  // order_[i]: the chunk whose digest is the i-th
    u64 most_ = 0;
};

}  // namespace warren::chunk::cuda
