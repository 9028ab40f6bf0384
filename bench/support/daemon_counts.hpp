// SPDX-License-Identifier: Apache-2.0
// What a mount's daemon has done, in numbers that hardly depend on what else runs: where two mounts
// differ in time and in none of these, the difference is not theirs.
//
// Invariant: each number only grows while the daemon lives and none of its threads ends.
#pragma once

#include <string>

#include "warren/types.hpp"

namespace warren::bench {

struct DaemonCounts {
    u64 requests = 0;       // of the kernel
    u64 read_bytes = 0;     // from the disk
    u64 written_bytes = 0;  // to the disk
    u64 page_faults = 0;    // that needed no disk
    u64 switches = 0;       // from a thread to another one
    double cpu_seconds = 0;
};

/// Counts of the daemon whose mount is at `path`, since it began.
DaemonCounts daemon_counts(const std::string& path);

/// The increase since `before`.
DaemonCounts counted_since(const DaemonCounts& before, const DaemonCounts& now);

}  // namespace warren::bench
