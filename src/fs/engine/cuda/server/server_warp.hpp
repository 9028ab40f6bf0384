// SPDX-License-Identifier: Apache-2.0
// The warps of the resident server: their shared memory, and the mailboxes through which the
// polling warp hands commands to the others.
//
// Invariant: a mailbox belongs to the polling warp while its state is box_idle, and to its worker
// from box_full until the worker sets box_idle again.
#pragma once

#include "fs/core/fast_lookup.hpp"
#include "fs/engine/cuda/launch/operations_warp.hpp"
#include "fs/engine/cuda/server/server_protocol.hpp"
#include "fs/engine/cuda/shared_memory.cuh"

#if defined(__CUDACC__)

namespace warren::cuda_engine {

enum BoxState : u32 { box_idle = 0, box_full = 1, box_leave = 2 };

/// One worker's part of its block's shared memory.
struct WorkerSpace {
    ops::Command command;
    alignas(16) char name[ring::inline_name_max];
    alignas(16) u32 inode_words[32];  // the half of an inode that holds its attributes
    ring::ReplyWords reply;
    core::NodeCopy node;
};

struct BlockSpace {
    // A copy in shared memory, because operations read its pointers all the time: kernel parameters
    // lie behind a cache that every acquire empties.
    core::Store store;
    RingEntry ring;
    WorkerSpace workers[warps_per_server_block];
    core::VersionNotes notes;
    // The polling warp, which is in block 0, puts commands for workers of that block here, without
    // leaving the multiprocessor. Workers of other blocks copy their commands to here.
    Mailbox boxes[warps_per_server_block];
    u32 states[warps_per_server_block];  // only in block 0
};

template <class T>
using block_atomic = cuda::atomic_ref<T, cuda::thread_scope_block>;

/// A worker: runs the commands in its mailbox until the state is box_leave.
__device__ void work(const ServerArguments& arguments, BlockSpace& space, u32 block, u32 warp);

}  // namespace warren::cuda_engine

#endif
