// SPDX-License-Identifier: Apache-2.0
// Digests by all processes that mpirun has started: rank 0 knows the files, each rank hashes its
// share of their bytes, rank 0 has the results.
//
// Invariant: results come in the order of the files, whoever made them: what is printed is what one
// process prints. No rank has more than a part of a list in memory or under way.
#pragma once

#include <string>

#include "apps/warren/hash_choice.hpp"

namespace warren::cli {

/// Adds the jobs of one operand at rank 0, with all ranks listing if it is a tree of the host; see
/// add_hash_jobs(). All call it.
bool add_hash_jobs_over_ranks(Session& session, const std::string& operand,
                              const HashOptions& options, hash::Algorithm algorithm,
                              HashJobs& jobs);

enum class HashEnd : u8 {
    whole,
    cut,     // the keeper was told to stop
    failed,  // a list could not be kept: some rank has said so
};

/// As hash_by_choice() with the jobs of rank 0, which alone calls `done`, for all of them if the
/// end is whole. All call it, and all get the same end but for what fails at rank 0 at the last.
HashEnd hash_over_ranks(HashJobs& jobs, Session& session, HashOptions options, bool is_verbose,
                        const HashDone& done);

}  // namespace warren::cli
