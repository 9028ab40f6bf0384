// SPDX-License-Identifier: Apache-2.0
// The warps of the resident server: what a block of them shares, and the letter boxes through which
// the polling warp hands commands to the others.
//
// Invariant: a box belongs to the polling warp while its state is `idle`, and to its worker from
// `full` until the worker says `idle` again.
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
    // Operations read its pointers all the time; from a kernel's parameters each would come the
    // long way, past a cache that every acquire empties.
    core::Store store;
    RingEntry rings[ring::rings_max];
    WorkerSpace workers[warps_per_block];
    core::VersionNotes notes;
    // In block 0, where the polling warp is, letters come here: its neighbours are reached without
    // leaving the multiprocessor. Elsewhere a worker copies its letter to here.
    Mailbox boxes[warps_per_block];
    u32 states[warps_per_block];  // only in block 0
};

template <class T>
using block_atomic = cuda::atomic_ref<T, cuda::thread_scope_block>;

/// The polling warp: takes commands from the rings until the epoch ends.
__device__ void dispatch(const ServerArguments& arguments, BlockSpace& space);
/// A worker: runs the commands that it is given until it is told to leave.
__device__ void work(const ServerArguments& arguments, BlockSpace& space, u32 block, u32 warp);

}  // namespace warren::cuda_engine

#endif
