// SPDX-License-Identifier: Apache-2.0
// Digests by all processes that mpirun has started: rank 0 knows the files, each rank hashes its
// share of their bytes, rank 0 has the results.
//
// Invariant: results come in the order of the files, whoever made them: what is printed is what one
// process prints.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/warren/hash_choice.hpp"

namespace warren::cli {

/// Adds the jobs of one operand at rank 0, with all ranks listing if it is a tree of the host; see
/// add_hash_jobs(). All call it.
bool add_hash_jobs_over_ranks(Session& session, const std::string& operand,
                              const HashOptions& options, hash::Algorithm algorithm,
                              std::vector<HashJob>& jobs);

/// As hash_by_choice() with the jobs of rank 0, which alone calls `done`. False if the keeper was
/// told to stop: nothing was handed on then. All call it.
bool hash_over_ranks(const std::vector<HashJob>& jobs, HashOptions options, bool is_verbose,
                     const std::function<void(const HashJob&, const HashResult&)>& done);

}  // namespace warren::cli
