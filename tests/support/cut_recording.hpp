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
    /// The workload is in one more state, or the last one has been made durable.
    void note_state() { events.push_back(log->event_count()); }
    void note_sync() {
        synced_states.push_back(events.size() - 1);
        synced_events.push_back(log->event_count());
    }
    /// The states that the volume may be in after a cut at `event`.
    u64 first_state(u64 event) const;
    u64 last_state(u64 event) const;
};

/// Opens a volume whose disk tells `log` of all that it does; null if that is not possible.
using RecordedOpen = std::function<std::unique_ptr<Volume>(MemoryDisk& log)>;

/// Runs `steps` operations, each one transaction, or a few that show one state, with a sync now and
/// then, on a new volume of `volume_bytes`.
CutRecording record_for_cuts(u64 seed, u64 steps, u64 volume_bytes, const RecordedOpen& open);

/// Opens what a cut after `event` left, for reading and then for writing, and compares it with the
/// states that it may be in.
void expect_state_after(MemoryDisk& image, const CutRecording& recording, u64 event);

/// What is looked at of all that a cut may leave.
struct CutBounds {
    u64 subsets_of_max = 3;  // up to so many writes behind a flush: every subset of them
    u64 samples = 2;         // else, and torn and reordered in any case: so many chosen at random
};
struct CutFigures {
    u64 cuts = 0;
    u64 states = 0;
    CutFigures& operator+=(const CutFigures& other) {
        cuts += other.cuts;
        states += other.states;
        return *this;
    }
};

/// Cuts the power after each event and calls `look(image, event)` for what each cut may leave,
/// until the test has failed: all that was written, nothing since the last flush, subsets of that,
/// and some of it torn and in another order. A cut that loses the last write is the cut before it:
/// it is looked at only where a sync has come back since.
CutFigures for_each_cut(const CutRecording& recording, const CutBounds& bounds, u64 seed,
                        const std::function<void(MemoryDisk& image, u64 event)>& look);
/// Cuts the power once after each event, in one of all these ways.
void expect_states_after_random_cuts(const CutRecording& recording, u64 seed);

}  // namespace warren
