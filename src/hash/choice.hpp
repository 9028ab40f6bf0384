// SPDX-License-Identifier: Apache-2.0
// Chooses CPU or GPU by the model, from rates that are measured at the first call large enough to
// matter. Smaller calls use the CPU and measure nothing.
#pragma once

#include "hash/model.hpp"
#include "hash/pieces.hpp"

namespace warren::hash {

struct Choice {
    Processor processor = Processor::cpu;
    Errc code = Errc::ok;  // no_device if a GPU was requested and there is none
    double predicted = 0;  // seconds on that processor; 0 if no prediction was made
};

/// Chooses the processor that hashes the pieces.
Choice choose(Algorithm algorithm, const Pieces& pieces, const Options& options);

/// Chooses the processor that hashes the windows. Requires: there are some.
Choice choose(const Windows& windows, Bytes data, u64 output_bytes, const Options& options);

/// The rates of this machine for an algorithm, measured at the first call. All 0 without a GPU.
const Rates& rates_of(Algorithm algorithm);

}  // namespace warren::hash
