// SPDX-License-Identifier: Apache-2.0
// A random workload on a disk that records, and when it came to which state: what tests need to cut
// the power anywhere in it and to know what the volume may hold then.
//
// Invariant: a state is one that the model was in between two operations; a recording without
// events is a failed test.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tests/support/memory_volume.hpp"
#include "tests/support/random_operations.hpp"
#include "tests/support/state_history.hpp"

namespace warren {

struct CutRecording {
    std::unique_ptr<MemoryDisk> log;
    StateHistory history;
    std::vector<u64> events;         // by state: events at its end
    std::vector<u64> synced_states;  // states that a sync made durable
    std::vector<u64> synced_events;  // when that sync had come back

    MemoryDisk& disk() const { return *log; }
    /// The states that the volume may be in after a cut at `event`.
    u64 first_state(u64 event) const;
    u64 last_state(u64 event) const;
};

/// Opens a volume whose disk tells `log` of all that it does; null if that is not possible.
using RecordedOpen = std::function<std::unique_ptr<Volume>(MemoryDisk& log)>;

/// Runs `steps` operations, each one transaction, or a few that show one state, with a sync now and
/// then, on a new volume of `volume_bytes`.
CutRecording record_for_cuts(u64 seed, u64 steps, u64 volume_bytes, const RecordedOpen& open);

/// Opens what a cut after `event` left and compares it with the states that it may be in.
void expect_state_after(MemoryDisk& image, const CutRecording& recording, u64 event);

}  // namespace warren
