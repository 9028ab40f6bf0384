// SPDX-License-Identifier: Apache-2.0
// CPU or GPU for the commands that hash and chunk: what --engine asks for, and for `auto` what the
// model of docs/HASHING.md predicts on this machine. Getting a GPU ready takes longer than
// most such commands, so the model is asked for large inputs only.
//
// Invariant: what is printed on stdout is the same, whoever computes.
#pragma once

#include <string_view>
#include <vector>

#include "apps/warren/hash_files.hpp"

namespace warren::cli {

/// Below this `auto` is the CPU, unasked.
inline constexpr u64 least_bytes_for_model = 2 * gib;

/// The values of --algorithm.
std::vector<std::string_view> algorithm_choices();

/// The processor that --engine asks for. False, with a complaint, if that is a GPU and there is
/// none.
bool choose_processor(hash::Processor& processor);

/// Says on stderr what was predicted, and who computes therefore.
void tell_choice(u64 bytes, const hash::Prediction& prediction, hash::Processor processor);

/// As hash_files(), where Processor::automatic is decided first. Verbose: says why, and what the
/// stages of the GPU took. That memory was short on the GPU is said in any case.
Errc hash_by_choice(HashJobs& jobs, HashOptions options, bool is_verbose, const HashDone& done);

}  // namespace warren::cli
