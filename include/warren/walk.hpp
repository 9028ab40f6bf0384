// SPDX-License-Identifier: Apache-2.0
// Walks trees of files on all cores, as ftw(3) does on one: a callback sees every entry relative to
// its directory's descriptor, a second one sees every directory when all below it is done, wherever
// that was done, with the results of its descendants merged.
//
// Invariant: every entry is visited once, by one thread at a time; a directory is visited before
// anything in it and finished after everything in it. Symbolic links are followed only if asked to.
// Memory is bounded by the depth of the tree and the number of threads, not by its size.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "warren/types.hpp"

namespace warren::walk {

enum class Type : u8 { unknown, fifo, character, directory, block, regular, link, socket };

/// What a callback wants: go on, do not descend into this directory, or end the walk.
enum class Next : u8 { go_on, prune, stop };

/// Which symbolic links are followed: none, those among the roots, all.
enum class Follow : u8 { none, roots, all };

/// How much an idle worker or rank takes of another's queue: half of it, or a random part.
enum class Split : u8 { half, random };

/// Whether statuses are asked for before a callback wants them, many at once by io_uring(7): where
/// it was measured that one takes long, never, or always.
enum class Ahead : u8 { measured, never, always };

/// Which rank asks which for work, in a walk over several processes; see docs/WALK.md.
enum class Scheduler : u8 {
    cp,           // rank 0 keeps a queue of all files and directories and gives out one at a time
    cp_keep_one,  // a worker goes on with one of the items that it found
    cp_directories,  // only directories go through rank 0: a worker sees the files that it finds
    drqs,            // any rank asks any other, by chance
    pa_drqs,       // the first rank of a node asks other nodes too, the others ask their node only
    pa_drqs_list,  // a rank asks its own node first, then the others (Algorithm 3 of the paper)
    batches        // drqs that talks only between batches of items, each ended by a barrier
};

/// Whether rank 0 keeps the queue, and does no work itself where there are others.
constexpr bool has_central_queue(Scheduler scheduler) {
    return scheduler <= Scheduler::cp_directories;
}

/// What could not be done. The walk goes on without it.
struct Failure {
    std::string path;
    /// "open", "read", "stat", "loop": a link to a directory above it; and what is there to do
    /// with the folder of temporary files, or the files of a checkpoint.
    const char* action;
    i32 error;  // errno
};
inline constexpr const char* action_keep_queue = "keep the queue of rank 0 in";
inline constexpr const char* action_read_queue = "read again the queue of rank 0 in";
inline constexpr const char* action_resume = "resume from";
/// Whether it is about a file of the walk, and not about the tree.
inline bool is_of_walk(const Failure& failure) {
    const std::string_view action = failure.action;
    return action == action_keep_queue || action == action_read_queue || action == action_resume;
}

struct Node;
struct Visit;
class Group;
class LinkSet;

/// Counts of the walk, to be read by another thread.
struct Meter {
    std::atomic<u64> entries{0};
    std::atomic<u64> directories{0};  // that have been read
    std::atomic<u64> queued{0};       // directories that wait to be read
};

/// One name in a directory (or a root), valid during its callback only.
class Entry {
 public:
    /// The open directory for calls like unlinkat(2) with name(); AT_FDCWD for a root.
    int directory() const { return directory_; }
    /// Ends with NUL. For a root: the path as it was given.
    const char* name() const { return name_; }
    std::string_view name_view() const { return {name_, name_size_}; }
    Type type() const { return type_; }
    /// 0 for a root.
    u32 depth() const { return depth_; }
    /// As the directory lists it; a mount point has the number of what it covers. 0 for a root.
    u64 inode() const { return inode_; }
    /// The root as given, then the names below it. Valid until the callback returns.
    std::string_view path() const;
    /// At least the fields of `mask` (STATX_*), asked for when they are first needed. Null if that
    /// failed, which is reported as a Failure unless `quiet`.
    const struct statx* status(u32 mask, bool quiet = false) const;
    /// Which thread this is, below the number of threads.
    u32 worker() const;
    /// A part of the directory's result, for this thread alone. Requires: Options::result_bytes is
    /// sizeof(T); zeros are an empty T.
    template <class T>
    T& result() const {
        return *static_cast<T*>(result_memory());
    }
    /// The same memory, untyped.
    void* result_memory() const;
    /// For a directory: what its own result begins with. Joins the one above if it is not entered.
    template <class T>
    T& own_result() const {
        return *static_cast<T*>(own_result_memory());
    }
    void* own_result_memory() const;
    /// Queues work that belongs to the entry's directory, which is not finished before it is done:
    /// some thread gives the bytes to Callbacks::work.
    void add(std::span<const std::byte> payload) const;
    /// Adds `amount`, a result, to that of the directory if this is the first of the file's `links`
    /// names to come, on any rank. ~0u links: it may come any number of times.
    void add_once(u64 device, u64 inode, u32 links, const void* amount) const;
    /// Reports what could not be done with the entry.
    void fail(const char* action, i32 error) const;

 private:
    friend struct Visit;
    int directory_ = -1;
    u32 name_size_ = 0;
    const char* name_ = nullptr;
    u64 inode_ = 0;
    Type type_ = Type::unknown;
    u32 depth_ = 0;
    Visit* visit_ = nullptr;
};

/// A directory all of whose descendants are done.
class Finished {
 public:
    Finished(Node& node, int above) : node_(node), above_(above) {}
    /// The open directory that holds it; AT_FDCWD for a root, -1 if it cannot be reached any more.
    int directory() const { return above_; }
    const char* name() const;
    std::string path() const;
    u32 depth() const;
    /// Whether all of the directory itself was read.
    bool complete() const;
    template <class T>
    T& result() const {
        return *static_cast<T*>(result_memory());
    }
    void* result_memory() const;

 private:
    Node& node_;
    int above_;
};

/// Work that a callback added.
struct Task {
    int directory;  // open; -1 if it cannot be reached any more
    std::string path;
    std::span<const std::byte> payload;
    void* result;
};

struct Options {
    u32 threads = 0;  // 0: the processors that this process may use, at most 32
    Follow follow = Follow::none;
    Split split = Split::half;
    bool one_file_system = false;
    /// Entries of each part of a directory in the order of their inodes: for disks with a seek.
    bool inode_order = false;
    Ahead ahead = Ahead::measured;
    /// Several threads may be in one directory. Removal is faster if they are not.
    bool share_directories = true;
    /// What a cache knows of a file will do; for file systems over a network.
    bool do_not_sync = false;
    u32 max_depth = ~0u;
    u32 result_bytes = 0;  // of the result that every directory has, at first zeros
    u32 open_limit = 0;    // directories open at once; 0: half of what the process may open
    u64 operations_per_second = 0;  // opens, reads and stats together; 0: as many as there can be
    Meter* meter = nullptr;
    LinkSet* links = nullptr;  // for add_once(), of several walks; null: the walk has its own
    /// The processes that walk together; all call walk(). Null: this one alone.
    Group* group = nullptr;
    Scheduler scheduler = Scheduler::pa_drqs;
    /// Of memory for what waits at rank 0 where it keeps the queue; the rest goes to a temporary
    /// file in $TMPDIR.
    u64 queue_bytes = 48 * mib;
    /// A folder, the same for all ranks, into which the state of the walk is written now and then,
    /// and when `interrupt` says so, which ends the walk. Gone when the walk is done. Empty: none.
    std::string checkpoint;
    u32 checkpoint_milliseconds = 30'000;
    /// Goes on from the state in that folder, with any number of ranks; not with cp.
    bool resume = false;
    std::function<bool()> interrupt;
};

/// `visit` is needed; the others may be empty. All are called from several threads at once.
struct Callbacks {
    std::function<Next(const Entry&)> visit;
    std::function<void(const Finished&)> finish;
    /// Adds the result `from` to `into`. Needed if results have bytes.
    std::function<void(void* into, const void* from)> merge;
    std::function<void(const Failure&)> fail;
    std::function<void(const Task&)> work;
    /// For checkpoints: what this rank's caller has counted outside of results, while no other
    /// callback runs, rank 0's when it has received all messages of the others; and the same before
    /// a walk that goes on, once for each rank there was. False if save() does not write such
    /// bytes: they may be forged. Then nothing is walked.
    std::function<std::string()> save;
    std::function<bool(std::string_view)> load;
};

struct Totals {
    u64 entries = 0;      // visited, roots included
    u64 directories = 0;  // opened and read
    u64 failures = 0;
    bool stopped = false;
    /// With a group: what this rank sent, and its share of the entries. All else is of all ranks.
    u64 messages = 0;
    u64 message_bytes = 0;
    u64 own_entries = 0;
    bool interrupted = false;  // stopped by Options::interrupt; a checkpoint has been written
};

/// Walks the trees at `roots`. The results of all roots are merged into `result` if that is given.
/// With a group the roots are those that rank 0 names, as each rank finds them in its own current
/// directory, and only rank 0 has the result. Where memory runs out, callbacks included, the walk
/// stops and ends with std::bad_alloc, on all ranks; but not where it does so on the thread that
/// talks to other ranks.
Totals walk(std::span<const std::string> roots, const Options& options, const Callbacks& callbacks,
            void* result = nullptr);

/// Tells the first name of a file with several names from the others. A file whose names have all
/// been seen is forgotten, so memory is bounded by the files whose other names are still to come.
class LinkSet {
 public:
    LinkSet();
    ~LinkSet();
    LinkSet(const LinkSet&) = delete;
    LinkSet& operator=(const LinkSet&) = delete;

    /// Whether this name of a file with `links` names is the first to come; from any thread.
    bool is_first(u64 device, u64 inode, u32 links);
    /// The same for what may come any number of times and is never forgotten.
    bool is_new(u64 device, u64 inode);
    /// How many files are remembered.
    u64 size() const;
    /// What is remembered, as numbers; from one thread at a time.
    void visit(const std::function<void(u64 device, u64 inode, u32 names_left)>& visitor) const;
    void remember(u64 device, u64 inode, u32 names_left);

 private:
    struct Shard;
    Shard* shards_;
};

/// The number that makedev(3) and st_dev have for the file system of a status.
inline u64 device_of(const struct statx& status) {
    return u64{status.stx_dev_major} << 32 | status.stx_dev_minor;
}

}  // namespace warren::walk
