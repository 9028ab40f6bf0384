// SPDX-License-Identifier: Apache-2.0
// A small batch as one launch of one block: it fetches what it needs from the host's memory, works
// through all phases and puts the answers there.
//
// Invariant: nothing else works on the store meanwhile.
#pragma once

#include <cuda_runtime_api.h>

#include "fs/core/store.hpp"
#include "fs/ops/batch.hpp"

namespace warren::cuda_engine {

/// More items than this are no small batch.
inline constexpr u64 small_items_max = 1024;
/// What the arrays of a small batch hold.
inline constexpr u64 small_records_max = 4096;

/// Where a small batch gets its items and puts its answers. Host pointers are pinned memory.
struct SmallBatch {
    ops::Batch batch;
    const uint4* host_in;
    uint4* device_in;
    u64 in_bytes;
    Errc* host_codes;
    ops::BatchMade* host_made;
    Attributes* host_attributes;
    ops::BatchState* host_state;
    u64* host_sequence;  // becomes `sequence` when all the rest is there
    u64 sequence;
};

/// Starts a run over the window of `call.batch` in `stream`. What its state is at the end shows in
/// *call.host_state once *call.host_sequence says so: with Errc::overflow it is too large.
Errc launch_small_batch(const core::Store& store, const SmallBatch& call, cudaStream_t stream);

}  // namespace warren::cuda_engine
