// SPDX-License-Identifier: Apache-2.0
// A walk without files, processes or time: the real scheduler (walk/rank.hpp) on ranks whose
// network and file system are modelled by costs. Trees are generated from a seed during the walk;
// items are directories, and the entries of one cost one sum. Where a scheduler sends files one by
// one, many files of a directory are sent together and cost what so many messages cost. So a run of
// 10,000 ranks and 10^10 files takes one core some minutes.
//
// Invariant: every file of the tree is counted once, whatever the scheduler; the same seed gives
// the same run. Messages between two ranks arrive in the order in which they were sent.
#pragma once

#include <memory>
#include <vector>

#include "walk/rank.hpp"

namespace warren::walk {

/// Costs in seconds, measured on two cores by bench/walk_costs and a real walk, except those of the
/// network, and the pauses, which are those of the courier. While the threads of a rank walk, one
/// more exchanges messages, as in walk/courier.hpp.
struct SimulatedCosts {
    double directory = 12e-6;       // open, read and close a directory
    double open = 2e-6;             // the same for one on the path to received work
    double levels = 10;             // directories on that path
    double name = 0.4e-6;           // read an entry's name
    double status = 1.22e-6;        // read its status
    double callback = 0;            // what the caller does with an entry
    double near_latency = 0;        // between ranks of a node: shared memory; included in `message`
    double far_latency = 20e-6;     // between nodes: of an assumed network
    double byte = 0.11e-9;          // of a message, on the sending side
    double message = 1.1e-6;        // send or receive one
    double wake = 5e-6;             // until a sleeping thread runs
    double shortest_pause = 20e-6;  // between polls for far messages; doubles up to the next
    double longest_pause = 500e-6;
    double longest_refusal = 2e-3;  // after refused requests
    double quantum = 200e-6;        // granularity at which threads and polls are interleaved
    u64 message_bytes = 4;          // without items
    u64 path_bytes = 96;            // for the path to the items of a message
    u64 item_bytes = 24;
};

struct SimulatedWorld {
    SchedulerName scheduler;
    u32 ranks = 4;
    u32 ranks_per_node = 4;
    u32 threads = 1;  // per rank
    u64 files = 1'000'000;
    u64 seed = 1;
    bool keeps_pairs = false;  // count messages and bytes by pair of ranks
};

struct SimulatedRank {
    u64 files = 0;
    u64 directories = 0;  // parts of large ones count too
    double working = 0;   // seconds of its threads
    u64 messages = 0;     // sent
    u64 bytes = 0;
    u64 requests = 0;
    double talking = 0;  // seconds spent on its messages
};

struct SimulatedWalk {
    double seconds = 0;
    std::vector<SimulatedRank> ranks;
    std::vector<u64> pair_messages;  // index: from * ranks + to
    std::vector<u64> pair_bytes;

    u64 files() const;
    u64 messages() const;
    u64 bytes() const;
    /// The largest amount of work of a rank, divided by the mean.
    double imbalance() const;
    /// The fraction of all threads' time that was work.
    double efficiency(u32 threads) const;
};

/// Runs the walk of a generated tree (walk/simulated_tree.hpp) to its end.
SimulatedWalk simulate(const SimulatedWorld& world, const SimulatedCosts& costs);

}  // namespace warren::walk
