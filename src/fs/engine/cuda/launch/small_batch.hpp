// SPDX-License-Identifier: Apache-2.0
// A small batch is the work of one block of threads: it fetches what it needs from the host's
// memory, works through all phases and puts the answers there. Then it lingers for a moment, for a
// batch that comes meanwhile needs no launch; who waits for all kernels waits for its life's end.
//
// The host writes a batch and then its number. A block that sees another number than its last one
// runs that batch and writes the number back. When none has come in time, or it has lived long
// enough or was told to, it looks no more, and its last word is that it has left: a batch that is
// not answered by then was taken by nobody, and the host launches a block for it.
//
// Invariant: each batch is run once. A block is launched only when the one before has left. While a
// block lingers it touches neither the store nor what a batch points to; nothing else works on the
// store while a batch runs.
#pragma once

#include <cuda_runtime_api.h>

#include "fs/bulk/batch/batch.hpp"
#include "fs/core/store.hpp"
#include "gpu/buffer.hpp"
#include "gpu/stream.hpp"

namespace warren::cuda_engine {

/// More items than this are no small batch.
inline constexpr u64 small_items_max = 1024;
/// What the arrays of a small batch hold.
inline constexpr u64 small_records_max = 4096;

/// What is to be done, and where the answers go. Host pointers are pinned memory.
struct alignas(16) SmallBatch {
    core::Store store;
    ops::Batch batch;
    Errc* host_codes;
    ops::BatchMade* host_made;
    Attributes* host_attributes;
    ops::BatchState* host_state;
};

/// The items of a small batch on their way: pinned memory, and device memory for as much.
struct SmallItems {
    const uint4* host;
    uint4* device;
    u64 count;  // of uint4
};

/// What host and block tell each other, in pinned memory. Each word is written by one side only.
struct SmallExchange {
    /// What the host asks for: the batch's number, how many pieces its items are (24 bits), and
    /// whether the block must not linger (1 bit).
    alignas(64) u64 asked;
    /// The number of the batch that ended last, and whether all its items were done (1 bit): then
    /// nothing else is written, for the answer would wait until it has crossed the bus.
    alignas(64) u64 answered;
    u64 left;  // the number of the block that left last
    alignas(64) SmallBatch batch;
};

/// Runs small batches, one at a time.
class SmallBatches {
 public:
    SmallBatches() = default;
    ~SmallBatches();  // waits until no block is there
    SmallBatches(const SmallBatches&) = delete;
    SmallBatches& operator=(const SmallBatches&) = delete;

    /// Takes what run() would take first. Nothing to do if it is there.
    Errc open();
    /// Runs the window of `batch.batch`. Its state at the end is in *batch.host_state: with
    /// Errc::overflow it is too large.
    Errc run(const SmallBatch& batch, const SmallItems& items);
    /// Tells a block that lingers to leave, and does not wait for that. By any thread, but not
    /// beside run().
    void make_way();

 private:
    bool lingers() const;
    Errc launch(u64 asked);
    Errc wait(bool& is_answered);
    void take_answer(const SmallBatch& batch) const;

    gpu::Stream stream_;
    gpu::PinnedBuffer<SmallExchange> exchange_;
    SmallItems items_{};  // as the block that was launched last knows them
    u64 batches_ = 0;
    u64 blocks_ = 0;
};

}  // namespace warren::cuda_engine
