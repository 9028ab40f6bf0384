// SPDX-License-Identifier: Apache-2.0
// A replica on a GPU and the queries that it answers.
#pragma once

#include "fs/engine/replica/replica_queries.hpp"

namespace warren {

/// A replica of `store`, which outlives it, on GPU `options.device`, not loaded yet. If
/// `options.device_bytes` is 0, it takes at most a quarter of what is free when it is loaded.
std::unique_ptr<ReplicaQueries> make_device_replica(const core::Store& store,
                                                    const ReplicaOptions& options);

}  // namespace warren
