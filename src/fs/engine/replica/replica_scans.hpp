// SPDX-License-Identifier: Apache-2.0
// Scans on a replica of the metadata, beside the CPU engine: what the volume asks before it scans
// with its own threads.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "fs/bulk/scan/scan_call.hpp"
#include "fs/engine/replica/replica.hpp"

namespace warren {

/// How many scans had their answer from the replica, and how many were left to the caller.
struct ReplicaScanCounts {
    u64 answered = 0;
    u64 left = 0;
};

class ReplicaScans {
 public:
    virtual ~ReplicaScans() = default;

    /// See BulkCommands::scan(). Sees every change that ended before the call, in the state of one
    /// moment. Errc::not_supported: nothing was visited, and the caller scans by itself.
    virtual Errc scan(const ScanCall& call) = 0;
    /// What keeps the replica, for users.
    virtual std::string name() const = 0;
    virtual ReplicaScanCounts counts() const = 0;
};

struct ReplicaOptions {
    u64 device_bytes = 0;  // the most memory of the device that the image takes
    /// Called once, before the first version: begins to mark changes and loads all metadata.
    std::function<Errc()> prepare;
    Replica::Freeze freeze;
    Replica::ForEach for_each;
    /// Receives a line when the replica is given up: from then on scan() is not supported.
    std::function<void(const std::string&)> report;
};

}  // namespace warren
