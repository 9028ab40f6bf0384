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
#include "apps/warren/host_checkpoint.hpp"

namespace warren::cli {

class HostSearch {
 public:
    HostSearch(const Expression& expression, const WalkSetup& setup, bool sorted, bool json);

    bool begin() {
        return begin_checkpoints(setup_) &&
               failures_.open(setup_.errors_file, setup_.options.resume);
    }
    /// Searches one tree; false if -quit or an interrupt ended it.
    bool run(const std::string& start);
    bool was_interrupted() const { return was_interrupted_; }
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
    bool may_be_gone(i32 error) const;
    std::string save();
    void load(std::string_view saved);
    void gather();

    const Expression& expression_;
    WalkSetup setup_;
    bool sorted_;
    bool json_;
    bool was_interrupted_ = false;
    bool has_quit_ = false;
    FailureList failures_;
    ChangeLimit limit_;
    FindCommands commands_;
    LineBuffers lines_;
    std::vector<Worker> workers_;  // the last one's is for finished directories
    std::mutex finished_mutex_;
    std::vector<std::string> objects_;
};

}  // namespace warren::cli
