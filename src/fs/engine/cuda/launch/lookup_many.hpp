// SPDX-License-Identifier: Apache-2.0
// Look-ups of many names that are on the device already, put there by a program that works there or
// by a stream of the host's (fs/engine/cuda/launch/lookup_slots.hpp). They take the fast lookup
// (fs/core/fast_lookup.hpp); what does not go that way is said to be left, and is for
// ops::Verb::lookup.
//
// Invariant: nothing is written but the answers.
#pragma once

#include <cuda_runtime_api.h>

#include "fs/bulk/batch/batch.hpp"
#include "fs/core/permission.hpp"
#include "fs/core/store.hpp"
#include "warren/volume.hpp"

namespace warren::cuda_engine {

/// A name in a directory; its bytes lie in device memory.
struct LookupKey {
    Handle directory;
    const char* name;
    u32 length;
};

/// How the look-ups are divided among lanes.
struct LookupShape {
    u32 lanes = 8;  // work on one look-up: 4, 8, 16 or 32
    u32 warps_per_block = 8;
    u32 blocks_per_multiprocessor = 4;
};

/// Looks up `count` names in `stream` on behalf of `caller`, whose groups lie in device memory.
/// codes[i] is Errc::ok, no_entry, or retry if it is left; attributes[i] counts with Errc::ok
/// only. All arrays lie in device memory.
/// Errc::invalid for a shape that there is not, Errc::io if the launch failed.
Errc launch_lookups(const core::Store& store, const core::Credentials& caller,
                    const LookupKey* keys, u32 count, Attributes* attributes, Errc* codes,
                    const LookupShape& shape, cudaStream_t stream);

/// As above of names as a batch has them, in device memory.
Errc launch_lookups(const core::Store& store, const core::Credentials& caller,
                    const ops::BatchEnd* ends, const u64* names, u32 count, Attributes* attributes,
                    Errc* codes, cudaStream_t stream);

}  // namespace warren::cuda_engine
