// SPDX-License-Identifier: Apache-2.0
// The chunk index in device memory: an open hash table. One 128-bit compare-and-swap takes a slot,
// so no thread sees half a key.
//
// Invariant: after a batch the table equals the CPU's index after the same chunks in order,
// whatever the order of threads: the smallest place of a key wins, and brings its length.
#pragma once

#include <vector>

#include "gpu/buffer.hpp"
#include "gpu/stream.hpp"
#include "warren/dedup.hpp"

namespace warren::dedup::cuda {

/// A batch in device memory, one element a chunk.
struct DeviceChunks {
    const Key* keys = nullptr;
    const u64* places = nullptr;
    const u32* lengths = nullptr;
    u64 count = 0;
};

class DeviceIndex {
 public:
    /// Room for `most_entries`; the table is a third larger at least. Errc::no_memory.
    Errc open(u64 most_entries, const gpu::Stream& stream);

    /// Queues the adding of a batch; originals[i] becomes the first place of chunk i's key, as in
    /// Entry::place. `originals` is in device memory.
    Errc add(const DeviceChunks& chunks, u64* originals, const gpu::Stream& stream);
    /// Queues look-ups: originals[i] is the first place of the key, ~0 if it is not there.
    Errc find(const Key* keys, u64 count, u64* originals, const gpu::Stream& stream) const;

    /// All entries, by key; waits for the stream. Errc::no_space if some chunk found no slot: the
    /// index is then unusable, and the caller must fill a larger one or the CPU's.
    Errc read(std::vector<Entry>& entries, const gpu::Stream& stream) const;

 private:
    gpu::DeviceBuffer<Entry> slots_;  // one more than the table, for the key that marks free ones
    gpu::DeviceBuffer<u32> overflow_;
    gpu::DeviceBuffer<u64> found_;  // slots of the batch at hand
    u64 mask_ = 0;
};

}  // namespace warren::dedup::cuda
