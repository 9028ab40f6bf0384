// SPDX-License-Identifier: Apache-2.0
// Lookups of many names that are in device memory already, for a lookup stream of the host
// (fs/engine/cuda/launch/lookup_slots.hpp). They use the fast path (fs/core/fast_lookup.hpp). A
// name that cannot be looked up there is answered Errc::retry, and the caller uses
// ops::Verb::lookup for it.
//
// Invariant: only the answers are written.
#pragma once

#include <cuda_runtime_api.h>

#include "fs/bulk/batch/batch.hpp"
#include "fs/core/permission.hpp"
#include "fs/core/store.hpp"
#include "warren/volume.hpp"

namespace warren::cuda_engine {

/// Launches a kernel in `stream` that looks up `count` operands of a batch on behalf of `caller`,
/// whose groups lie in device memory, as all arrays do. codes[i] becomes Errc::ok, no_entry, or
/// retry if the name must be looked up by a command; attributes[i] is valid with Errc::ok only.
/// Errc::io if the launch failed.
Errc launch_lookups(const core::Store& store, const core::Credentials& caller,
                    const ops::BatchOperand* operands, const u64* names, u32 count,
                    Attributes* attributes, Errc* codes, cudaStream_t stream);

}  // namespace warren::cuda_engine
