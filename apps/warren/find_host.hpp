// SPDX-License-Identifier: Apache-2.0
// find on files of the host: the walk of the library with the expressions of find(1).
//
// Invariant: a file is asked for its attributes only if a test or an action needs them.
#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "apps/warren/find_commands.hpp"
#include "apps/warren/find_expression.hpp"
#include "apps/warren/host_walk.hpp"

namespace warren::cli {

class HostSearch {
 public:
    HostSearch(const Expression& expression, const WalkSetup& setup, bool sorted, bool json);

    bool begin() { return failures_.open(setup_.errors_file); }
    /// Searches one tree; false if -quit ended it.
    bool run(const std::string& start);
    /// Runs what -exec gathers and tells what failed; whether all went well.
    bool finish();
    /// With --json: the objects found.
    std::vector<std::string>& objects() { return objects_; }

 private:
    /// What one thread has gathered.
    struct alignas(64) Worker {
        std::string path;
        Verdict verdict;
        std::vector<std::pair<std::string, std::string>> sorted;  // path, output
        std::vector<std::string> objects;
    };
    class Place;

    walk::Next visit(Worker& worker, const walk::Entry& entry, const std::string& start);
    void finish_directory(const walk::Finished& directory, const std::string& start);
    void take(Worker& worker, const Found& found, Place& place, Verdict& verdict);
    void gather();

    const Expression& expression_;
    WalkSetup setup_;
    bool sorted_;
    bool json_;
    FailureList failures_;
    FindCommands commands_;
    LineBuffers lines_;
    std::vector<Worker> workers_;  // the last one's is for finished directories
    std::mutex finished_mutex_;
    std::vector<std::string> objects_;
};

}  // namespace warren::cli
