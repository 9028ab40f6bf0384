// SPDX-License-Identifier: Apache-2.0
// Runs batches of items (fs/bulk/batch/batch.hpp) on the device: owns the pinned memory that the
// volume fills in and the arrays of the phases, and launches the kernels.
//
// Invariant: one batch at a time; nothing else works on the store during run().
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <stop_token>

#include "fs/bulk/batch/batch.hpp"
#include "fs/core/store.hpp"
#include "fs/engine/cuda/launch/small_batch.hpp"
#include "gpu/buffer.hpp"
#include "gpu/stream.hpp"

namespace warren::cuda_engine {

class ItemBatch {
 public:
    ItemBatch() = default;
    ItemBatch(const ItemBatch&) = delete;
    ItemBatch& operator=(const ItemBatch&) = delete;

    /// Allocates in advance what small batches need; if that fails, they allocate it themselves.
    /// Call it once, before the first batch.
    void prepare_small();
    /// Allocates memory for batches of `items` items in advance, because that takes longer than
    /// running such a batch. A large batch that is opened meanwhile waits for it. Returns soon
    /// after `must_stop` asks for it. Call it once; any thread may.
    void prepare(u64 items, const std::stop_token& must_stop);
    /// Makes room for a batch. Errc::no_memory.
    Errc open(const ops::BatchShape& shape, ops::BatchMemory& memory);

    /// Starts the copy of a part of a large batch to the device. Any thread may call it, between
    /// open() and run(), for all items once or for none. If it fails, run() copies the batch.
    void send(const ops::BatchPart& part);

    /// How much device memory a batch takes, about, and how much this has taken.
    static u64 device_bytes(const ops::BatchShape& shape);
    u64 device_bytes() const {
        return room_.in.bytes() + room_.out.bytes() + room_.arrays.bytes() + sort_memory_.bytes();
    }

    /// Gives device memory to `frames` more frames.
    using AddFrames = std::function<Errc(u64 frames)>;

    /// Runs the window; without `add_frames` once, and no frames are added. `status` is the result,
    /// as of ItemBatches::run_batch(). Returns Errc::io if the device failed.
    Errc run(const core::Store& store, const ops::BatchHeader& header, const AddFrames& add_frames,
             ops::BatchWindow& window, Errc& status);

    /// Frees the multiprocessor that a small batch may still occupy. Any thread may call it, but
    /// not during run().
    void make_way() { small_.make_way(); }

 private:
    /// Pinned memory and device memory for the input, the answers and the arrays.
    struct Room {
        gpu::PinnedBuffer<std::byte> host_in;
        gpu::PinnedBuffer<std::byte> host_out;
        gpu::DeviceBuffer<std::byte> in;
        gpu::DeviceBuffer<std::byte> out;
        gpu::DeviceBuffer<std::byte> arrays;
    };

    Errc make_room(u64 in_bytes, u64 out_bytes);
    void take_prepared();
    Errc prepare_room(u64 items, const std::stop_token& must_stop);
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

    ops::Batch batch_;  // with device pointers
    ops::BatchMemory memory_;
    u32* host_groups_ = nullptr;
    u32* groups_ = nullptr;
    u64 in_bytes_ = 0;  // of the input, without groups
    bool is_copied_ = false;
    std::atomic<u64> items_sent_{0};  // number of items copied by send()
    bool is_small_ = false;
    gpu::Stream stream_;
    Room room_;
    std::mutex prepared_mutex_;
    Room prepared_;  // for large batches; guarded by prepared_mutex_
    gpu::PinnedBuffer<u64> needed_;
    gpu::PinnedBuffer<ops::BatchState> state_;  // one to write, one to read
    gpu::DeviceBuffer<std::byte> sort_memory_;
    SmallBatches small_;  // destroyed first, because a block may use the memory above
};

}  // namespace warren::cuda_engine
