// SPDX-License-Identifier: Apache-2.0
// Runs the commands of find -exec.
//
// Invariant: all output printed before a command starts is written before the command writes. A
// command that ends in {} + gets each path once, in as many runs as the kernel's limit on arguments
// requires.
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "apps/warren/find_expression.hpp"

namespace warren::cli {

class FindCommands {
 public:
    explicit FindCommands(const std::vector<FindCommand>& commands);

    /// Runs the command for one file, or collects the path for a {} + command; the value of the
    /// test.
    bool run(size_t number, const std::string& path);
    /// Runs the commands for what was collected; true if every {} + run of the search succeeded.
    bool finish();
    /// Saves the collected paths for a checkpoint, and restores them. Requires: no command is
    /// running.
    std::string save() const;
    bool load(std::string_view saved);

 private:
    struct Gathered {
        std::vector<std::string> paths;
        size_t bytes = 0;
    };
    void run_gathered(size_t number, std::vector<std::string> paths);

    const std::vector<FindCommand>& commands_;
    std::mutex running_;  // serialises {} + runs, whose output is long
    std::mutex mutex_;    // guards the members below
    std::vector<Gathered> gathered_;
    bool good_ = true;
};

}  // namespace warren::cli
