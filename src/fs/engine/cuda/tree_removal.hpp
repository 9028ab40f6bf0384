// SPDX-License-Identifier: Apache-2.0
// remove_tree on a GPU: the host's side of the bulk steps. A step is three kernels in a row: one
// passes the gate and fills the queue, many warps take the tree apart (ops/harvest_tree.hpp), and
// the last hangs on the orphan directory what is left over and lets go of the gate.
//
// Invariant: between two steps every inode that still exists hangs on the orphan directory, and the
// queue is empty.
#pragma once

#include <vector>

#include "fs/core/store.hpp"
#include "fs/engine/cuda/bulk_queue.hpp"
#include "gpu/buffer.hpp"
#include "gpu/stream.hpp"
#include "warren/volume.hpp"

namespace warren::cuda_engine {

/// A step's words in device memory. The kernels of a step run one after the other.
struct RemovalState {
    BulkQueueState queue;
    alignas(128) u64 loose;  // directories taken out of their parents and not freed yet
    alignas(128) u64 loose_limit;
    u64 dirty_limit;
    u64 dirty_max;
    u64 deadline;
    u64 share;
    u32 unfinished_count;
    u32 freed_root_count;
    u32 wanted_count;
    u32 must_wait;    // the last kernel lacks a block
    u32 enders_left;  // warps of the last kernel
    u32 error;        // an Errc
    u32 is_open;      // the gate is held
    // Listing of directories.
    u32 may_list;
    u32 lonely_count;  // directories that were all that was left to do
    u32 is_narrow;     // most of them were: the step stops, to begin again with a listing
    u32 is_listing;    // a listing is in force
    u32 holds_moves;   // no directory moves meanwhile
    u32 seed_count;
    u32 frame_count;
    u32 directory_count;
    u32 reached_count;
    u64 move_version;
    u64 move_word;  // stands for the stripe of the move lock among the step's lanes
    alignas(128) u64 files;
    u64 directories;
    u64 inodes;
    u64 blocks;
};

/// Directories found by their parents' numbers rather than by their names: a tree that is narrow
/// and deep is taken apart everywhere at once. An inode is named by the rank of its frame among
/// those listed and its slot there.
struct TreeListing {
    static constexpr u32 frames_max = 1024;  // 8 million inodes; deeper ones are found by name
    static constexpr u32 rank_none = ~u32{0};

    u32* ranks;        // of each frame of the volume
    u32* frames;       // by rank
    u32* above;        // of each inode listed: an ancestor; itself where the way ends
    u32* reached;      // whether the way ends in a directory that the step begins with
    u64* directories;  // index, generation << 32
};

/// What a step tells the host, in pinned memory.
struct RemovalReport {
    Errc code;
    u32 is_open;    // the last kernel must run again once the wanted blocks are in memory
    u32 is_narrow;  // list_trees() comes next
    u32 unfinished_count;
    u32 wanted_count;
    u64 files;
    u64 directories;
    u64 blocks;
};

/// A directory that outlives a step: its number, and whether it was looked through.
inline constexpr u64 looked_through = u64{1} << 63;

/// What the kernels of a step are given.
struct RemovalRef {
    RemovalState* state;
    BulkQueue queue;
    u64* unfinished;   // directories that outlive the step
    u64* freed_roots;  // directories that hung on the orphan directory and are freed
    u64* wanted;       // places of blocks that are not in memory
    u64* seeds;        // what a listing begins with
    TreeListing listing;
    const u64* roots;  // what the step begins with
    u64 first_root;
    u32 root_count;
    u32 list_max;  // of each list
    i64 now;
    RemovalReport* report;
};

struct RemovalShape {
    u32 blocks = 132;
    u32 warps_per_block = 8;
    u64 queue_capacity = u64{1} << 20;
};

/// What the host does for the steps.
class RemovalHost {
 public:
    virtual ~RemovalHost() = default;
    /// Brings blocks into the device's memory; places may be named twice.
    virtual Errc bring(const std::vector<u64>& places) = 0;
    virtual Errc commit() = 0;
    /// Unlinks the names of a dying directory that a step cannot free.
    virtual Errc remove_leftovers(u64 directory) = 0;
};

/// Queues the kernels that fill the queue again with the directories that are left and all those
/// below them that can be found by their parents' numbers.
Errc list_trees(const core::Store& store, const RemovalRef& ref, const gpu::Stream& stream);

class TreeRemoval {
 public:
    Errc open(const RemovalShape& shape = {});

    /// Frees the directory `root`, which hangs on the orphan directory, and all below it; adds what
    /// went to `removal`. `store` points to device memory.
    Errc remove(const core::Store& store, u64 root, RemovalHost& host, Removal& removal);

    u32 steps() const { return steps_; }
    /// Milliseconds that the kernels of the last step took, by the device's clock.
    float kernel_ms() const;
    /// Of these, those that the last kernel took.
    float end_ms() const;

 private:
    Errc run_step(const core::Store& store, RemovalHost& host, Removal& removal);
    Errc launch_harvest(const core::Store& store);
    Errc end_step(const core::Store& store, RemovalHost& host);
    Errc bring_wanted(RemovalHost& host);
    Errc prepare_next_step(RemovalHost& host);
    u32 blocks_for(const core::Store& store) const;
    RemovalRef ref() const;

    RemovalShape shape_;
    gpu::Stream stream_;
    gpu::Event begin_;
    gpu::Event harvested_;
    gpu::Event end_;
    gpu::DeviceBuffer<RemovalState> state_;
    gpu::DeviceBuffer<BulkSlot> slots_;
    gpu::DeviceBuffer<u64> lists_;
    gpu::DeviceBuffer<u32> ranks_;
    gpu::DeviceBuffer<u32> listed_;
    gpu::DeviceBuffer<u64> directories_;
    gpu::PinnedBuffer<u64> roots_;
    gpu::PinnedBuffer<RemovalReport> report_;
    u32 root_count_ = 0;
    u32 warps_ = 0;
    u32 steps_ = 0;
    i64 now_ = 0;
};

}  // namespace warren::cuda_engine
