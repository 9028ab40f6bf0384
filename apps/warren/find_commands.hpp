// SPDX-License-Identifier: Apache-2.0
// Runs the commands of find -exec.
//
// Invariant: what was printed before a command starts is on its way before the command writes. A
// gathered command gets each path once, in as many runs as the kernel's limit on arguments needs.
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

    /// Runs the command for one file, or notes the path for a gathered one; the value of the test.
    bool run(size_t number, const std::string& path);
    /// Runs what is gathered; whether all gathered runs of the search have ended with success.
    bool finish();
    /// What a checkpoint keeps of what is gathered, and the same again; while nothing is run.
    std::string save() const;
    bool load(std::string_view saved);

 private:
    struct Gathered {
        std::vector<std::string> paths;
        size_t bytes = 0;
    };
    void run_gathered(size_t number, std::vector<std::string> paths);

    const std::vector<FindCommand>& commands_;
    std::mutex running_;  // gathered runs, one at a time: their output is long
    std::mutex mutex_;    // what follows
    std::vector<Gathered> gathered_;
    bool good_ = true;
};

}  // namespace warren::cli
