// SPDX-License-Identifier: Apache-2.0
// A kernel file system's column of the table: the rows of bench/support/rows.hpp by the programs
// and system calls that people use, in one process or in several.
//
// Invariant: what several processes do is shared out by directory, so that they do not wait for
// each other's locks more than they must.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/support/report.hpp"
#include "bench/support/rows.hpp"

namespace warren::bench {

class PeerRows {
 public:
    /// `folder` lies on the file system. `sync` makes it durable; null where nothing is durable.
    PeerRows(std::string folder, std::string label, std::function<void()> sync, const Scale& scale,
             Report& report);

    void measure_single_calls();
    void measure_small_trees();
    void measure_moves();
    /// Each run takes seconds: only every `share`th of the directories are made.
    void measure_many_files(u64 processes, u64 share);
    /// Deletes, moves and makes 1 to `most` files, one call each.
    void measure_crossover(u64 most);

 private:
    template <class Work>
    void add_both(const std::string& row, const std::string& label, double items, const Work& work);
    void measure_tree(const std::string& row, const std::string& kind);
    void measure_move(const std::string& row, u64 directories, u64 each);
    void measure_large_run(const std::string& label, u64 processes, u64 directories);
    void measure_walks(const std::string& label, u64 directories);
    void measure_crossover_at(u64 count);

    const std::string folder_;
    const std::string label_;
    const std::function<void()> sync_;
    const Scale scale_;
    Report& report_;
};

}  // namespace warren::bench
