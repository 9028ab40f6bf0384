// SPDX-License-Identifier: Apache-2.0
// What walk, find, du and rm share on files of the host: the options of the walk, output buffered
// by each thread, failures reported at the end, progress on the terminal.
//
// Invariant: lines are written whole. A failure never ends a walk: failures are counted, the first
// thousand are printed when the walk is over, and all are written to the file of --errors. With
// several ranks, rank 0 collects the failures of all.
#pragma once

#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "apps/warren/arguments.hpp"
#include "base/descriptor.hpp"
#include "walk/bytes.hpp"
#include "walk/rate_limit.hpp"
#include "walk/spill_sort.hpp"
#include "warren/volume.hpp"
#include "warren/walk.hpp"

namespace warren::cli {

inline constexpr int threads_option = 900;
inline constexpr int rate_option = 901;
inline constexpr int errors_option = 902;
inline constexpr int inode_order_option = 903;
inline constexpr int scheduler_option = 904;
inline constexpr int split_option = 905;
inline constexpr int checkpoint_option = 906;
inline constexpr int resume_option = 907;
inline constexpr int checkpoint_seconds_option = 908;
inline constexpr int progress_option = 909;
inline constexpr int ahead_option = 910;
inline constexpr int memory_option = 911;

/// The values of --ask-ahead and similar options, and of --split.
inline constexpr std::string_view when_names[] = {"auto", "always", "never"};
inline constexpr std::string_view split_names[] = {"half", "random"};
std::vector<std::string_view> scheduler_choices();

/// Whether the option controls how a tree is walked rather than what is done with it.
constexpr bool is_walk_option(int id) {
    return id >= threads_option && id <= memory_option;
}

/// A row for the option table of a command that keeps a list, or may keep a queue.
#define WARREN_MEMORY_OPTION                                                                 \
    {                                                                                        \
        ::warren::cli::memory_option, "memory", "SIZE",                                      \
            "memory for a list to sort (default: 64M), or a queue of --scheduler cp (48M); " \
            "the rest goes to $TMPDIR"                                                       \
    }

/// Rows for the option table of a command whose work several ranks can share.
#define WARREN_RANK_OPTIONS                                                   \
    {::warren::cli::scheduler_option, "scheduler", "NAME",                    \
     "under mpirun, how work is shared: {} (default: pa-drqs; docs/WALK.md)", \
     ::warren::cli::scheduler_choices},                                       \
    {                                                                         \
        ::warren::cli::split_option, "split", "HOW",                          \
            "how much work an idle rank gets: {} (default: half)",            \
            ::warren::names_of<::warren::cli::split_names>                    \
    }

/// Rows for the option table of a command that walks the host's files.
#define WARREN_WALK_OPTIONS                                                                       \
    {::warren::cli::threads_option, "threads", "N", "threads (default: one for each processor)"}, \
        {::warren::cli::rate_option, "max-ops", "N",                                              \
         "at most N opens, reads and stats per second, and N changes"},                           \
        {::warren::cli::errors_option, "errors", "FILE",                                          \
         "write failures to FILE, one JSON object per line"},                                     \
        {::warren::cli::inode_order_option, "inode-order", nullptr,                               \
         "read in inode order, which saves seeks on hard disks"},                                 \
        {::warren::cli::ahead_option, "ask-ahead", "WHEN",                                        \
         "do many stats in parallel: {} (default: auto, if they are slow)",                       \
         ::warren::names_of<::warren::cli::when_names>},                                          \
        {::warren::cli::progress_option, "progress", nullptr,                                     \
         "show progress even if stderr is not a terminal, as under mpirun"},                      \
        WARREN_RANK_OPTIONS, WARREN_MEMORY_OPTION

/// The settings of a walk of the host's files, from the command line.
struct WalkSetup {
    WalkSetup();

    walk::Options options;  // including the group of all ranks
    std::string errors_file;
    u64 list_bytes = walk::SpillSort::usual_memory_bytes;
    bool split_given = false;
    std::string command;  // with checkpoints: the words that determine the result

    /// Takes one of the options above; false, after an error message, if its value is invalid.
    bool take(int option, const std::string& value);
    bool take_all(const Arguments& parsed);
    bool take_number(int option, const std::string& value);
    /// Like leave_to_rank_0(): true if this process has nothing to do.
    bool leave_to_rank_0();
};

/// Limits the changes that a tool makes to the rate of --max-ops, like the walk's own operations.
class ChangeLimit {
 public:
    explicit ChangeLimit(const walk::Options& options);
    /// Waits until one more file may be created, changed or removed; from any thread.
    void take() { limit_.take(); }

 private:
    walk::RateLimit limit_;
};

/// The failures of a walk; usable from any thread.
class FailureList {
 public:
    FailureList() = default;
    ~FailureList();
    FailureList(const FailureList&) = delete;
    FailureList& operator=(const FailureList&) = delete;

    /// Returns false, after an error message, if the file cannot be created. An empty name: no
    /// file. `goes_on`: append to what an interrupted run has written.
    bool open(const std::string& file, bool goes_on = false);
    void add(const walk::Failure& failure);
    u64 count() const;
    /// Failures are counted and written to the file, but not printed.
    void be_silent() { is_silent_ = true; }
    /// Prints the failures; true if there were none.
    bool finish();
    /// Adds a failure sent by another rank to the list that was opened last.
    static void receive(std::string_view bytes);
    /// Saves the list for a checkpoint, and restores it.
    std::string save();
    /// Consumes the rest of `saved`. Returns false, without any change, if it is malformed.
    bool load(walk::ByteReader& saved);

 private:
    mutable std::mutex mutex_;
    std::vector<walk::Failure> first_;
    u64 count_ = 0;
    std::string name_;
    FILE* file_ = nullptr;
    bool file_failed_ = false;
    bool is_silent_ = false;
};

/// Text from many threads: each has a buffer of its own, which is printed when it is large.
class LineBuffers {
 public:
    /// For a walk with these options.
    explicit LineBuffers(const walk::Options& options);
    ~LineBuffers() { flush(); }
    LineBuffers(const LineBuffers&) = delete;
    LineBuffers& operator=(const LineBuffers&) = delete;

    std::string& of(u32 worker) { return buffers_[worker].text; }
    /// To be called after a whole line was added.
    void wrote(u32 worker) {
        if (buffers_[worker].text.size() >= flush_bytes) send(buffers_[worker].text);
    }
    /// Prints the buffer of `worker` now.
    void send_own(u32 worker) { send(buffers_[worker].text); }
    void flush();

 private:
    static constexpr size_t flush_bytes = 64 * kib;
    struct alignas(64) Buffer {
        std::string text;
    };
    static void send(std::string& text);
    std::vector<Buffer> buffers_;
};

/// Whether a single rank is to do the work: because of operands in a volume, or because of `alone`,
/// as rank 0 decides. Called by all ranks.
bool spans_one_rank(bool alone, const std::vector<std::string>& operands);

/// Opens a directory that has been read. ESTALE: its name leads to another one by now, because it
/// was replaced or a file system was unmounted, so that what is missing there proves nothing.
Descriptor open_again(const walk::Finished& directory, int flags);

/// The number of threads of a walk with these options.
u32 walk_threads(const walk::Options& options);

/// Raises the limit of open files as far as this process may.
void raise_open_limit();

/// 'f', 'd', ... as in find -type.
char type_letter(walk::Type type);

/// Appends a number in decimal.
void append_number(std::string& text, u64 number);

}  // namespace warren::cli
