// SPDX-License-Identifier: Apache-2.0
// A replica on a GPU and the queries that it answers.
#pragma once

#include "fs/engine/replica/replica_queries.hpp"

namespace warren {

/// Makes a replica of `store`, which outlives it, on the first GPU. Null, and the reason in
/// `failure`, if there is no GPU or the metadata do not fit.
std::unique_ptr<ReplicaQueries> make_device_replica(const core::Store& store,
                                                    const ReplicaOptions& options,
                                                    std::string& failure);

}  // namespace warren
