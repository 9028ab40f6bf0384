// SPDX-License-Identifier: Apache-2.0
// How long a GPU of this machine takes to cut. The choice between CPU and GPU adds this to the
// model of src/hash for digests.
//
// Invariant: measured once for the latest rule, on random bytes, which favour no rule.
#pragma once

#include "warren/dedup.hpp"

namespace warren::dedup {

struct CuttingRates {
    bool has_gpu = false;            // if false, the others are 0
    double gpu_start_seconds = 0;    // to open a chunker on a GPU that is in use
    double buffer_seconds_each = 0;  // per byte, to allocate and pin the buffer
    double gpu_seconds_each = 0;     // per byte, from pinned memory
};

/// The GPU's rates for a splitter's rule. Cutting into equal blocks costs nothing.
CuttingRates cutting_rates(const Splitter& splitter);

}  // namespace warren::dedup
