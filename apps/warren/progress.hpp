// SPDX-License-Identifier: Apache-2.0
// Shows progress of a long operation on stderr: on a terminal from the first second on, five times
// a second, and removes it at the end. If stderr is not a terminal, it prints a line now and then
// if that was requested; the lines of rank 0 then count the work of all ranks.
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "warren/types.hpp"
#include "warren/walk.hpp"

namespace warren::cli {

class Progress {
 public:
    /// `what` is the activity, for instance "copying".
    explicit Progress(std::string what);
    /// Shows the counts of `meter`: how much, how fast, how much is queued.
    Progress(std::string what, const walk::Meter& meter);

    /// Shows progress even if stderr is not a terminal, as in processes that mpirun starts.
    static void show_always();
    /// Takes the counts that another rank has sent.
    static void receive(u32 rank, std::string_view bytes);

    /// Counts finished work. Cheap; from any thread.
    void add(u64 items, u64 bytes) {
        items_.fetch_add(items, std::memory_order_relaxed);
        bytes_.fetch_add(bytes, std::memory_order_relaxed);
    }

 private:
    /// The counts of a meter.
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
    std::jthread thread_;  // last: it ends before the members that it reads
};

}  // namespace warren::cli
