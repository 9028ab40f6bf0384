// SPDX-License-Identifier: Apache-2.0
// How long cutting takes a GPU on this machine: the terms of cutting in the choice between CPU and
// GPU, beside the model of src/hash for digests.
//
// Invariant: measured once for the latest rule, on random bytes, which favour no rule.
#pragma once

#include "warren/dedup.hpp"

namespace warren::dedup {

struct CuttingRates {
    bool has_gpu = false;            // the others are 0 without
    double gpu_start_seconds = 0;    // to get a chunker and its memory, on a GPU that is in use
    double buffer_seconds_each = 0;  // to get a byte of the buffer, and to keep it in place
    double gpu_seconds_each = 0;     // for a byte, from pinned memory
};

/// The GPU's rates for a splitter's rule; blocks of one size cost nothing.
CuttingRates cutting_rates(const Splitter& splitter);

}  // namespace warren::dedup
