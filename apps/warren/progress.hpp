// SPDX-License-Identifier: Apache-2.0
// Shows on the terminal that something long is under way: after one second, five times a second,
// on stderr, and nothing is left of it at the end. What is no terminal gets lines now and then, if
// that was asked for; those of rank 0 then count what all ranks have done.
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "warren/types.hpp"
#include "warren/walk.hpp"

namespace warren::cli {

class Progress {
 public:
    /// `what` says what is being done, for instance "copying".
    explicit Progress(std::string what);
    /// Shows what `meter` counts: how much, how fast, what waits.
    Progress(std::string what, const walk::Meter& meter);

    /// From now on also where stderr is no terminal, as for the processes that mpirun starts.
    static void show_always();
    /// What another rank counts, as it told it.
    static void receive(u32 rank, std::string_view bytes);

    /// Counts what was done. Cheap, from any thread.
    void add(u64 items, u64 bytes) {
        items_.fetch_add(items, std::memory_order_relaxed);
        bytes_.fetch_add(bytes, std::memory_order_relaxed);
    }

 private:
    /// What a meter counts.
    struct Counts {
        u64 entries = 0;
        u64 queued = 0;
    };

    void start();
    void run(const std::stop_token& stop) const;
    void show(double seconds) const;
    std::string counts(double seconds) const;
    Counts counts_of_all_ranks() const;

    std::string what_;
    const walk::Meter* meter_ = nullptr;
    std::atomic<u64> items_{0};
    std::atomic<u64> bytes_{0};
    std::jthread thread_;  // last, so that its end comes before that of what it shows
};

}  // namespace warren::cli
