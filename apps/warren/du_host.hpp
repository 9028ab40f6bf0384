// SPDX-License-Identifier: Apache-2.0
// du on files of the host: the sum of a directory is that of its own entries and of the directories
// below it, which the walk merges as they finish.
//
// Invariant: a file with several names counts once in a run, under the name that is met first.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "apps/warren/host_checkpoint.hpp"

namespace warren::cli {

struct UsageChoices {
    bool all = false;
    bool apparent = false;
    bool inodes = false;  // count entries instead of adding up sizes
    bool count_links = false;
    bool separate = false;     // a directory's line excludes the directories below it
    bool counts_once = false;  // several operands: what more than one of them contains counts once
    u32 max_depth = ~0u;       // of directories that get a line
    u64 top = 0;               // how many of the largest files to list
    bool histogram = false;
    std::vector<std::string> excluded;
};

class HostUsage {
 public:
    /// Prints a line: the amount of an entry, and its path.
    using Print = std::function<void(u64 amount, const std::string& path)>;

    HostUsage(const UsageChoices& choices, const WalkSetup& setup, Print print);

    /// Whether several ranks can share the work: no lines for files, and no operand inside another.
    static bool may_span_ranks(const UsageChoices& choices, const WalkSetup& setup,
                               const std::vector<std::string>& operands);

    bool begin() {
        return begin_checkpoints(setup_) &&
               failures_.open(setup_.errors_file, setup_.options.resume);
    }
    void measure(const std::string& operand);
    u64 total() const { return total_; }
    bool was_interrupted() const { return was_interrupted_; }
    /// Prints the largest files and the histogram, and reports failures; true if there were none.
    bool finish();

 private:
    struct Sum;
    struct alignas(64) Worker {
        std::vector<std::pair<u64, std::string>> largest;  // a heap, the smallest of them first
        std::array<u64, 66> files{};                       // by the number of bits of their size
        std::array<u64, 66> bytes{};
    };

    walk::Next visit(const walk::Entry& entry);
    void finish_directory(const walk::Finished& directory);
    bool is_excluded(std::string_view path) const;
    bool is_counted(const walk::Entry& entry, const struct statx& status);
    void note_file(const walk::Entry& entry, u64 bytes);
    void print_largest();
    void print_histogram();

    UsageChoices choices_;
    WalkSetup setup_;
    Print print_;
    FailureList failures_;
    walk::LinkSet links_;
    std::vector<Worker> workers_;
    std::mutex mutex_;  // guards print_
    u64 root_device_ = 0;
    u64 total_ = 0;
    bool was_interrupted_ = false;
};

}  // namespace warren::cli
