// SPDX-License-Identifier: Apache-2.0
// A batch of items (fs/bulk/batch/batch.hpp) on its way to the device and back: pinned memory that
// the volume fills in, the arrays that its phases work on, and the launches.
//
// Invariant: one batch at a time; while run() is at work nothing else works on the store.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>

#include "fs/bulk/batch/batch.hpp"
#include "fs/core/store.hpp"
#include "fs/engine/cuda/launch/small_batch.hpp"
#include "gpu/buffer.hpp"
#include "gpu/stream.hpp"

namespace warren::cuda_engine {

/// What the last batch took: milliseconds of the device's clock, over all its runs.
struct BatchFigures {
    float copy_in_ms = 0;  // but for what came over while others were packed
    float run_ms = 0;
    float copy_out_ms = 0;
    u32 runs = 0;
};

class ItemBatch {
 public:
    ItemBatch() = default;
    ItemBatch(const ItemBatch&) = delete;
    ItemBatch& operator=(const ItemBatch&) = delete;

    /// Takes all that small batches need ahead. Where there is no memory they take it themselves.
    /// Once, before the first batch.
    void prepare_small();
    /// Takes memory for batches of so many items ahead: it takes longer to get than such a batch
    /// takes to run. A large batch that is opened meanwhile waits for it. Ends soon once
    /// `must_stop`. Once, by any thread.
    void prepare(u64 items, const std::atomic<bool>& must_stop);
    /// Makes room for a batch. Errc::no_memory if there is none.
    Errc open(const ops::BatchShape& shape, ops::BatchMemory& memory);

    /// Starts to bring a part of a large batch over. By any thread, all items once or none, between
    /// open() and run(). What fails here is copied by run().
    void send(const ops::BatchPart& part);

    /// Gives memory to so many more frames.
    using AddFrames = std::function<Errc(u64 frames)>;

    /// Runs the window; `status` says what became of it, as ItemBatches::run_batch(). The answer is
    /// Errc::io if the device failed.
    Errc run(const core::Store& store, const ops::BatchHeader& header, const AddFrames& add_frames,
             ops::BatchWindow& window, Errc& status);

    /// Lets go of the multiprocessor that a small batch may still hold. By any thread, but not
    /// beside run().
    void make_way() { small_.make_way(); }

    const BatchFigures& figures() const { return figures_; }

 private:
    /// Memory on its way to the device and back, and there.
    struct Room {
        gpu::PinnedBuffer<std::byte> host_in;
        gpu::PinnedBuffer<std::byte> host_out;
        gpu::DeviceBuffer<std::byte> in;
        gpu::DeviceBuffer<std::byte> out;
        gpu::DeviceBuffer<std::byte> arrays;
    };

    Errc make_room(u64 in_bytes, u64 out_bytes);
    void take_prepared();
    Errc prepare_room(u64 items, const std::atomic<bool>& must_stop);
    Errc add_inodes_ahead(const core::Store& store, const AddFrames& add_frames);
    Errc lay_out(u64 records_max);
    Errc run_small(const core::Store& store, const ops::BatchWindow& window,
                   ops::BatchState& state);
    Errc run_large(const core::Store& store, const AddFrames& add_frames,
                   const ops::BatchWindow& window, ops::BatchState& state);
    Errc add_inode_frames(const core::Store& store, const AddFrames& add_frames, u64 inodes,
                          Errc& status);
    Errc read_needed(ops::BatchWindow& window);
    void set_header(const ops::BatchHeader& header);
    Errc copy_in();
    Errc copy_out(u64 begin, u64 end);
    Errc begin_run(const ops::BatchWindow& window);
    Errc finish_timer(float& milliseconds);

    ops::Batch batch_;  // with device pointers
    ops::BatchMemory memory_;
    u32* host_groups_ = nullptr;
    const u32* groups_ = nullptr;
    u64 in_bytes_ = 0;  // without groups
    bool is_copied_ = false;
    std::atomic<u64> items_sent_{0};  // of those that were
    bool is_small_ = false;
    gpu::Stream stream_;
    gpu::Event begin_;
    gpu::Event end_;
    Room room_;
    std::mutex prepared_mutex_;
    Room prepared_;  // for large batches; under prepared_mutex_
    gpu::PinnedBuffer<u64> needed_;
    gpu::PinnedBuffer<ops::BatchState> state_;  // to write, and to read
    gpu::DeviceBuffer<std::byte> sort_memory_;
    BatchFigures figures_;
    SmallBatches small_;  // goes before what a block works on
};

}  // namespace warren::cuda_engine
