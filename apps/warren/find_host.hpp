// SPDX-License-Identifier: Apache-2.0
// find on files of the host: the library's walk, with the expressions of find(1).
//
// Invariant: the attributes of a file are read only if a test or an action needs them.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "apps/warren/find_commands.hpp"
#include "apps/warren/find_expression.hpp"
#include "apps/warren/found_list.hpp"
#include "apps/warren/host_checkpoint.hpp"

namespace warren::cli {

class HostSearch {
 public:
    HostSearch(const Expression& expression, const WalkSetup& setup, FoundList& list);

    bool begin() {
        return begin_checkpoints(setup_) &&
               failures_.open(setup_.errors_file, setup_.options.resume);
    }
    /// Searches one tree; false if -quit or an interrupt ended it.
    bool run(const std::string& start);
    bool was_interrupted() const { return was_interrupted_; }
    /// Runs the collected -exec commands and reports failures; true if there were none.
    bool finish();

 private:
    /// What one thread has collected.
    struct alignas(64) Worker {
        std::string path;
        Verdict verdict;
        std::string unsent;  // of the list, not sent yet
    };
    class Place;

    walk::Next visit(Worker& worker, const walk::Entry& entry, const std::string& start);
    void finish_directory(const walk::Finished& directory, const std::string& start);
    bool take(Worker& worker, const Found& found, Place& place, Verdict& verdict);
    bool prints_at_once() const { return !list_.is_sorted() && !list_.is_json(); }
    bool may_be_gone(i32 error) const;
    std::string save();
    bool load(std::string_view saved);

    const Expression& expression_;
    WalkSetup setup_;
    FoundList& list_;
    bool is_listed_ = true;  // matches are printed
    bool was_interrupted_ = false;
    bool has_quit_ = false;
    FailureList failures_;
    ChangeLimit limit_;
    FindCommands commands_;
    LineBuffers lines_;
    std::vector<Worker> workers_;  // the last one is for finished directories
    std::mutex finished_mutex_;
};

}  // namespace warren::cli
