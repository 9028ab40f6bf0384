// SPDX-License-Identifier: Apache-2.0
// A walk without files, processes or time: the real scheduler (walk/rank.hpp) on ranks whose
// network and file system are numbers. Trees are made as they are walked, from a seed; items are
// directories and the entries of one cost one sum. Where a scheduler gives files out one by one,
// many of a directory go together and cost what so many messages cost. So 10,000 ranks and 10^10
// files fit one core and minutes.
//
// Invariant: every file of the tree is counted once, whatever the scheduler; the same seed gives
// the same run. Messages between two ranks arrive in the order in which they were sent.
#pragma once

#include <memory>
#include <vector>

#include "walk/rank.hpp"

namespace warren::walk {

/// Seconds, measured on two cores by bench/walk_costs and a real walk, but for the network
/// and the pauses, which are those of the courier. While a rank's threads walk, one more talks, as
/// in walk/courier.hpp.
struct SimulatedCosts {
    double directory = 12e-6;       // to open, read and close one
    double open = 2e-6;             // to open and close one on the path to what is handed over
    double levels = 10;             // directories on that path
    double name = 0.4e-6;           // to be told an entry's name
    double status = 1.22e-6;        // to ask for its status
    double callback = 0;            // what the caller does with an entry
    double near_latency = 0;        // between ranks of a node: shared memory, `message` has it all
    double far_latency = 20e-6;     // between nodes: of a network that is not there to be measured
    double byte = 0.11e-9;          // of a message, on the side that sends
    double message = 1.1e-6;        // to send or to take one
    double wake = 5e-6;             // until a thread that slept runs
    double shortest_pause = 20e-6;  // between looks for messages from far, doubled up to the
    double longest_pause = 500e-6;
    double longest_refusal = 2e-3;  // after requests that brought nothing
    double quantum = 200e-6;        // how exactly threads and looks are interleaved
    u64 message_bytes = 4;          // without items
    u64 path_bytes = 96;            // of the path to the items of a message
    u64 item_bytes = 24;
};

struct SimulatedWorld {
    SchedulerName scheduler;
    u32 ranks = 4;
    u32 ranks_per_node = 4;
    u32 threads = 1;  // of a rank
    u64 files = 1'000'000;
    u64 seed = 1;
    bool keeps_pairs = false;  // messages and bytes by pair of ranks
};

struct SimulatedRank {
    u64 files = 0;
    u64 directories = 0;  // and parts of large ones
    double working = 0;   // seconds of its threads
    u64 messages = 0;     // sent
    u64 bytes = 0;
    u64 requests = 0;
    double talking = 0;  // seconds of its messages
};

struct SimulatedWalk {
    double seconds = 0;
    std::vector<SimulatedRank> ranks;
    std::vector<u64> pair_messages;  // from * ranks + to
    std::vector<u64> pair_bytes;

    u64 files() const;
    u64 messages() const;
    u64 bytes() const;
    /// The largest share of the work over the mean.
    double imbalance() const;
    /// The part of all threads' time that was work.
    double efficiency(u32 threads) const;
};

/// Runs the walk of a tree (walk/simulated_tree.hpp) to its end.
SimulatedWalk simulate(const SimulatedWorld& world, const SimulatedCosts& costs);

}  // namespace warren::walk
