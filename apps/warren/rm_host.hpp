// SPDX-License-Identifier: Apache-2.0
// rm on files of the host: on all cores, each name removed relative to its open directory.
//
// Invariant: nothing behind a symbolic link is touched, and "/", "." and ".." are not removed. A
// directory is removed after everything in it; whatever remains is reported at the end.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>

#include "apps/warren/host_checkpoint.hpp"
#include "apps/warren/tally.hpp"

namespace warren::cli {

struct RemovalChoices {
    bool recursive = false;
    bool directories = false;
    bool force = false;
    bool ask = false;
    bool verbose = false;
    bool sums_up = false;
};

class HostRemover {
 public:
    HostRemover(const RemovalChoices& choices, const WalkSetup& setup);

    bool begin() {
        return begin_checkpoints(setup_) &&
               failures_.open(setup_.errors_file, setup_.options.resume);
    }
    bool was_interrupted() const { return was_interrupted_; }
    void remove(const std::string& operand);
    /// Reports failures; true if there were none. `others`: operands elsewhere that failed.
    bool finish(u64 others);
    /// Counts what was removed elsewhere.
    void count(u64 files, u64 directories) {
        tally_.add(files_count, files);
        tally_.add(directories_count, directories);
    }
    /// Whether a single process must do the work because it asks the user.
    static bool asks(const RemovalChoices& choices);
    /// For ranks other than 0: helps with each tree that rank 0 removes, until rank 0 calls
    /// finish().
    bool follow();

 private:
    enum : size_t { files_count, directories_count };

    bool conclude(u64 others);
    void remove_tree(const std::string& operand);
    void walk_tree(const std::string& operand);
    walk::Next visit(const walk::Entry& entry);
    void finish_directory(const walk::Finished& directory);
    bool may_remove(const walk::Entry& entry);
    void fail(const std::string& path, i32 error);
    bool may_be_gone(i32 error) const;
    void note_unopened(const walk::Failure& failure);

    RemovalChoices choices_;
    WalkSetup setup_;
    bool asks_about_protected_;
    bool was_interrupted_ = false;
    bool was_done_before_ = false;
    FailureList failures_;
    ChangeLimit limit_;
    Tally tally_{"files", "directories"};
    std::mutex mutex_;                     // guards unopened_
    std::map<std::string, i32> unopened_;  // directories and why
};

}  // namespace warren::cli
