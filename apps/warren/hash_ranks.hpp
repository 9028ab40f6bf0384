// SPDX-License-Identifier: Apache-2.0
// Computes digests with all processes that mpirun has started: rank 0 lists the files, each rank
// hashes its share of their bytes, and rank 0 receives the results.
//
// Invariant: results come in the order of the files, whichever rank computed them, so the output is
// that of one process. No rank holds more than a part of a list in memory or in flight.
#pragma once

#include <string>

#include "apps/warren/hash_choice.hpp"

namespace warren::cli {

/// Adds the jobs of one operand at rank 0; all ranks list it together if it is a tree of the host.
/// See add_hash_jobs(). Called by all ranks.
bool add_hash_jobs_over_ranks(Session& session, const std::string& operand,
                              const HashOptions& options, hash::Algorithm algorithm,
                              HashJobs& jobs);

enum class HashEnd : u8 {
    whole,
    cut,     // stopped at the request of the keeper
    failed,  // a list could not be kept; a rank has reported it
};

/// Like hash_by_choice() with the jobs of rank 0. `done` is called at rank 0 only, for every job if
/// the result is `whole`. Called by all ranks; all return the same result, except for an error at
/// rank 0 at the very end.
HashEnd hash_over_ranks(HashJobs& jobs, Session& session, HashOptions options, bool is_verbose,
                        const HashDone& done);

}  // namespace warren::cli
