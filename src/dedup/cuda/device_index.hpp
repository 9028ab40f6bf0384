// SPDX-License-Identifier: Apache-2.0
// The chunk index in device memory: an open hash table. A slot is claimed by one 128-bit
// compare-and-swap, so no thread sees half a key.
//
// Invariant: after a batch the table equals the CPU's index after the same chunks in order,
// whatever the order of threads: the smallest place of a key wins, together with its length.
#pragma once

#include <vector>

#include "gpu/buffer.hpp"
#include "gpu/stream.hpp"
#include "warren/dedup.hpp"

namespace warren::dedup::cuda {

/// A batch of chunks in device memory; each array has one element per chunk.
struct DeviceChunks {
    const Key* keys = nullptr;
    const u64* places = nullptr;
    const u32* lengths = nullptr;
    u64 count = 0;
};

class DeviceIndex {
 public:
    /// Allocates room for `most_entries`; the table is at least a third larger. Errc::no_memory.
    Errc open(u64 most_entries, const gpu::Stream& stream);

    /// Queues the addition of a batch. originals[i] becomes the first place of chunk i's key, as in
    /// Entry::place. `originals` is in device memory.
    Errc add(const DeviceChunks& chunks, u64* originals, const gpu::Stream& stream);
    /// Queues lookups. originals[i] becomes the first place of key i, or ~0 if it is not in the
    /// index.
    Errc find(const Key* keys, u64 count, u64* originals, const gpu::Stream& stream) const;

    /// Gets all entries, sorted by key, after waiting for the stream. Errc::no_space: a chunk found
    /// no slot; the index is then unusable, and the caller must fill a larger one or the CPU's.
    Errc read(std::vector<Entry>& entries, const gpu::Stream& stream) const;

 private:
    gpu::DeviceBuffer<Entry> slots_;  // one more than the table, for the key of zeros
    gpu::DeviceBuffer<u32> overflow_;
    gpu::DeviceBuffer<u64> found_;  // slots of the current batch
    u64 mask_ = 0;
};

}  // namespace warren::dedup::cuda
