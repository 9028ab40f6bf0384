// SPDX-License-Identifier: Apache-2.0
// Records the disk requests of a random workload, and when it reached which state: what tests need
// to cut the power at any point and to know the states in which the volume may be then.
//
// Invariant: a state is one of the model between two operations; a recording without events fails
// the test.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tests/support/memory_volume.hpp"
#include "tests/support/random_operations.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/script.hpp"
#include "tests/support/state_history.hpp"

namespace warren {

struct CutRecording {
    std::unique_ptr<MemoryDisk> log;
    StateHistory history;
    std::vector<u64> events;         // by state: the number of events at its end
    std::vector<u64> synced_states;  // states that a sync has made durable
    std::vector<u64> synced_events;  // the number of events when that sync returned

    MemoryDisk& disk() const { return *log; }
    /// Records that the workload has reached a new state, or that the last state was made durable.
    void note_state() { events.push_back(log->event_count()); }
    void note_sync() {
        synced_states.push_back(events.size() - 1);
        synced_events.push_back(log->event_count());
    }
    /// The range of states in which the volume may be after a cut at `event`.
    u64 first_state(u64 event) const;
    u64 last_state(u64 event) const;
};

/// Opens a volume whose disk records all its requests in `log`; null on failure.
using RecordedOpen = std::function<std::unique_ptr<Volume>(MemoryDisk& log)>;

/// Runs `steps` operations on a new volume of `volume_bytes`. Each is one transaction, or several
/// that show the same state; a sync follows now and then.
CutRecording record_for_cuts(u64 seed, u64 steps, u64 volume_bytes, const RecordedOpen& open);

/// Opens the disk left by a cut after `event`, read-only and then for writing, and compares it with
/// the states in which it may be.
void expect_state_after(MemoryDisk& image, const CutRecording& recording, u64 event);

/// Limits the number of images examined for each cut.
struct CutBounds {
    u64 subsets_of_max = 3;  // for up to that many writes after a flush: every subset
    u64 samples = 2;         // else, and with torn and reordered writes: random samples
    u64 step = volume_step;  // one in so many of these, chosen by chance, is examined
};
struct CutFigures {
    u64 cuts = 0;
    u64 states = 0;  // of which one in CutBounds::step was examined
    CutFigures& operator+=(const CutFigures& other) {
        cuts += other.cuts;
        states += other.states;
        return *this;
    }
};

/// Cuts the power after each event and calls `look(image, event)` for the possible results of each
/// cut, until the test has failed: everything was written, nothing since the last flush, subsets of
/// that, and some of it torn and reordered. Losing exactly the last write equals the previous cut,
/// so that is examined only if a sync has returned in between.
CutFigures for_each_cut(const CutRecording& recording, const CutBounds& bounds, u64 seed,
                        const std::function<void(MemoryDisk& image, u64 event)>& look);
/// Cuts the power once after each event, in a random one of these ways.
void expect_states_after_random_cuts(const CutRecording& recording, u64 seed);

/// Runs `base` on `volume`, whose disk is that of the empty `recording` behind a KeepingDisk, then
/// records `last`, which must take several transactions, and a sync. Cuts the power after each
/// event of these: the volume is then as before `last` or as after it. Closes the volume.
void expect_all_or_nothing(Volume& volume, CutRecording& recording, const Script& base,
                           const Script& last, u64 seed);

}  // namespace warren
