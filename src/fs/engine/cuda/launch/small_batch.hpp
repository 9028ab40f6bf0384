// SPDX-License-Identifier: Apache-2.0
// A small batch is run by one block of threads: it copies its input from host memory, runs all
// phases and writes the answers to host memory. Then it lingers for a moment, because a batch that
// comes meanwhile needs no launch. A CUDA call that waits for all kernels waits for its end, too.
//
// The host writes a batch and then its number. A block that sees another number than its last one
// runs that batch and writes the number back. If no batch comes in time, if the block is too old,
// or if the host requests it, the block stops polling and, as its last store, reports that it has
// left. If a batch is not answered by then, no block has run it, and the host launches another one.
//
// Invariant: each batch is run once. A block is launched only after the one before has left. A
// lingering block accesses neither the store nor memory that a batch points to. Nothing else works
// on the store while a batch runs.
#pragma once

#include <cuda_runtime_api.h>

#include "fs/bulk/batch/batch.hpp"
#include "fs/core/store.hpp"
#include "gpu/buffer.hpp"
#include "gpu/stream.hpp"

namespace warren::cuda_engine {

/// The largest number of items of a small batch.
inline constexpr u64 small_items_max = 1024;
/// Capacity of the arrays of a small batch.
inline constexpr u64 small_records_max = 4096;

/// A batch and the host memory for its answers. Host pointers lead to pinned memory.
struct alignas(16) SmallBatch {
    core::Store store;
    ops::Batch batch;
    Errc* host_codes;
    ops::BatchMade* host_made;
    Attributes* host_attributes;
    ops::BatchState* host_state;
};

/// The input of a small batch in pinned memory, and device memory to which it is copied.
struct SmallItems {
    const uint4* host;
    uint4* device;
    u64 count;  // of uint4
};

/// The words by which host and block communicate, in pinned memory. Each word has one writer.
struct SmallExchange {
    /// The host's request: the batch's number, the size of its input in units of 16 bytes (24
    /// bits), and whether the block must not linger (1 bit).
    alignas(64) u64 asked;
    /// The number of the batch that ended last, and whether all its items succeeded (1 bit). In
    /// that case no other answers are written, because this word would have to wait until they
    /// have crossed the bus.
    alignas(64) u64 answered;
    u64 left;  // the number of the block that left last
    alignas(64) SmallBatch batch;
};

/// Runs small batches, one at a time.
class SmallBatches {
 public:
    SmallBatches() = default;
    ~SmallBatches();  // waits until no block is running
    SmallBatches(const SmallBatches&) = delete;
    SmallBatches& operator=(const SmallBatches&) = delete;

    /// Allocates what run() needs. Does nothing if that was done before.
    Errc open();
    /// Runs the window of `batch.batch`. Its state at the end is in *batch.host_state; there
    /// Errc::overflow means that the batch is too large.
    Errc run(const SmallBatch& batch, const SmallItems& items);
    /// Requests a lingering block to leave, without waiting for it. Any thread may call it, but not
    /// during run().
    void make_way();

 private:
    bool lingers() const;
    Errc launch(u64 asked);
    Errc wait(bool& is_answered);
    void take_answer(const SmallBatch& batch) const;

    gpu::Stream stream_;
    gpu::PinnedBuffer<SmallExchange> exchange_;
    SmallItems items_{};  // those passed to the block that was launched last
    u64 batches_ = 0;
    u64 blocks_ = 0;
};

}  // namespace warren::cuda_engine
