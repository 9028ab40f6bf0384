// SPDX-License-Identifier: Apache-2.0
// Selects CPU or GPU for the commands that hash and chunk: as --engine says, and for `auto` by the
// prediction of the model in docs/HASHING.md for this machine. Initialising a GPU takes longer than
// most such commands, so the model is consulted for large inputs only.
//
// Invariant: the output on stdout does not depend on the processor.
#pragma once

#include <string_view>
#include <vector>

#include "apps/warren/hash_files.hpp"

namespace warren::cli {

/// Below this size `auto` is the CPU without a prediction.
inline constexpr u64 least_bytes_for_model = 2 * gib;

/// The values of --algorithm.
std::vector<std::string_view> algorithm_choices();

/// The processor that --engine selects. Returns false, after an error message, if that is a GPU and
/// there is none.
bool choose_processor(hash::Processor& processor);

/// Prints on stderr what was predicted, and which processor was chosen.
void tell_choice(u64 bytes, const hash::Prediction& prediction, hash::Processor processor);

/// Like hash_files(), but decides Processor::automatic first. With `is_verbose`, prints the reason
/// and the times of the GPU's stages. A shortage of GPU memory is reported in any case.
Errc hash_by_choice(HashJobs& jobs, HashOptions options, bool is_verbose, const HashDone& done);

}  // namespace warren::cli
