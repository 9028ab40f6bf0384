// SPDX-License-Identifier: Apache-2.0
// Walks trees of files on all cores, as ftw(3) does on one. One callback sees every entry, relative
// to the descriptor of its directory. A second one sees every directory once everything below it is
// done, on whichever thread or rank that was, with the results of its descendants merged.
//
// Invariant: every entry is visited once, by one thread; a directory is visited before everything
// in it and finished after everything in it. Symbolic links are followed only on request. Memory is
// bounded by the depth of the tree and the number of threads, not by the size of the tree.
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

/// Return value of `visit`: continue, do not descend into this directory, or end the walk.
enum class Next : u8 { go_on, prune, stop };

/// Which symbolic links are followed: none, those given as roots, or all.
enum class Follow : u8 { none, roots, all };

/// How much an idle worker or rank takes of another's queue: half of it, or a random part.
enum class Split : u8 { half, random };

/// Whether statuses are requested before a callback needs them, many at once by io_uring(7): if
/// measurements show that a single request takes long, never, or always.
enum class Ahead : u8 { measured, never, always };

/// Which rank requests work from which, in a walk over several processes; see docs/WALK.md.
enum class Scheduler : u8 {
    cp,           // rank 0 keeps a queue of all files and directories, and gives out one at a time
    cp_keep_one,  // a worker keeps one of the items that it found
    cp_directories,  // only directories go through rank 0: a worker visits the files that it finds
    drqs,            // a rank requests work from any other, chosen at random
    pa_drqs,         // the first rank of a node also asks other nodes, the others do not
    pa_drqs_list,  // a rank asks the ranks of its node, then the others (Algorithm 3 of the paper)
    batches        // drqs that exchanges messages only between batches of items, each ended by a
                   // barrier
};

/// Whether rank 0 keeps the queue. If there are other ranks, it then processes no items itself.
constexpr bool has_central_queue(Scheduler scheduler) {
    return scheduler <= Scheduler::cp_directories;
}

/// An operation that failed. The walk continues without it.
struct Failure {
    std::string path;
    /// "open", "read", "stat", "loop" (a link to a directory above it), or an action on the folder
    /// of temporary files or on the files of a checkpoint.
    const char* action;
    i32 error;  // errno
};
inline constexpr const char* action_keep_queue = "keep the queue of rank 0 in";
inline constexpr const char* action_read_queue = "read again the queue of rank 0 in";
inline constexpr const char* action_resume = "resume from";
/// Whether the failure concerns a file that the walk uses itself, and not the tree.
inline bool is_of_walk(const Failure& failure) {
    const std::string_view action = failure.action;
    return action == action_keep_queue || action == action_read_queue || action == action_resume;
}

struct Node;
struct Visit;
class Group;
class LinkSet;

/// Progress of the walk, which another thread can read.
struct Meter {
    std::atomic<u64> entries{0};
    std::atomic<u64> directories{0};  // that were read
    std::atomic<u64> queued{0};       // directories waiting to be read
};

/// One name in a directory (or a root). Valid only during its callback.
class Entry {
 public:
    /// The open directory, for calls like unlinkat(2) with name(); AT_FDCWD for a root.
    int directory() const { return directory_; }
    /// The name, terminated by NUL. For a root: the path as given.
    const char* name() const { return name_; }
    std::string_view name_view() const { return {name_, name_size_}; }
    Type type() const { return type_; }
    /// The number of directories above the entry; 0 for a root.
    u32 depth() const { return depth_; }
    /// The inode number as the directory lists it: for a mount point that of the covered directory.
    /// 0 for a root.
    u64 inode() const { return inode_; }
    /// The path: the root as given, followed by the names below it. Valid until the callback
    /// returns.
    std::string_view path() const;
    /// The status with at least the fields of `mask` (STATX_*), which is read when first needed.
    /// Null if that failed, which is reported as a Failure unless `quiet`.
    const struct statx* status(u32 mask, bool quiet = false) const;
    /// The number of the calling thread, below the number of threads.
    u32 worker() const;
    /// A part of the directory's result that only this thread uses. Requires: Options::result_bytes
    /// is sizeof(T), and a T of zero bytes is an empty result.
    template <class T>
    T& result() const {
        return *static_cast<T*>(result_memory());
    }
    /// The same memory, untyped.
    void* result_memory() const;
    /// For a directory: the initial value of its own result. It is merged into the parent's result
    /// if the directory is not entered.
    template <class T>
    T& own_result() const {
        return *static_cast<T*>(own_result_memory());
    }
    void* own_result_memory() const;
    /// Queues a task that belongs to the entry's directory: some thread passes the bytes to
    /// Callbacks::work, and the directory is not finished before that.
    void add(std::span<const std::byte> payload) const;
    /// Merges `amount`, a result, into that of the directory if this is the first of the file's
    /// `links` names to be reported, on any rank. With `links` ~0u it may be reported any number of
    /// times.
    void add_once(u64 device, u64 inode, u32 links, const void* amount) const;
    /// Reports an operation on the entry that failed.
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

/// A directory all of whose descendants have been processed.
class Finished {
 public:
    Finished(Node& node, int above) : node_(node), above_(above) {}
    /// The open directory that contains it; AT_FDCWD for a root, -1 if it cannot be reached any
    /// more.
    int directory() const { return above_; }
    const char* name() const;
    std::string path() const;
    u32 depth() const;
    /// Whether the directory itself was read to its end.
    bool complete() const;
    /// Whether the open directory is the one that was read, and not another that its name leads to
    /// by now.
    bool is_read(int descriptor) const;
    template <class T>
    T& result() const {
        return *static_cast<T*>(result_memory());
    }
    void* result_memory() const;

 private:
    Node& node_;
    int above_;
};

/// A task that a callback has queued with Entry::add().
struct Task {
    int directory;  // open; -1 if it cannot be reached any more
    std::string path;
    std::span<const std::byte> payload;
    void* result;
    i32 error = 0;  // errno, if `directory` is -1
};

struct Options {
    u32 threads = 0;  // 0: the number of processors that this process may use, at most 32
    Follow follow = Follow::none;
    Split split = Split::half;
    bool one_file_system = false;
    /// Visit the entries of each part of a directory in the order of their inode numbers, for disks
    /// that seek.
    bool inode_order = false;
    Ahead ahead = Ahead::measured;
    /// Allow several threads in one directory. Removal is faster without.
    bool share_directories = true;
    /// Accept statuses from a cache without asking the server (AT_STATX_DONT_SYNC); for network
    /// file systems.
    bool do_not_sync = false;
    u32 max_depth = ~0u;
    u32 result_bytes = 0;  // size of each directory's result, which starts as zeros
    u32 open_limit = 0;    // directories open at once; 0: half of the process's limit of open files
    u64 operations_per_second = 0;  // opens, reads and stats together; 0: unlimited
    Meter* meter = nullptr;
    LinkSet* links = nullptr;  // for add_once() across several walks; null: the walk has its own
    /// The processes that walk together, all of which call walk(). Null: only this one.
    Group* group = nullptr;
    Scheduler scheduler = Scheduler::pa_drqs;
    /// Memory for the queue of rank 0, if it keeps one; the rest of the queue goes to a temporary
    /// file in $TMPDIR.
    u64 queue_bytes = 48 * mib;
    /// A folder, the same for all ranks, into which the state of the walk is written periodically,
    /// and when `interrupt` returns true, which ends the walk. The state is removed when the walk
    /// is complete. Empty: none.
    std::string checkpoint;
    u32 checkpoint_milliseconds = 30'000;
    /// Resume from the state in that folder, with any number of ranks; not with a cp scheduler.
    bool resume = false;
    std::function<bool()> interrupt;
};

/// `visit` is required; the others may be empty. All are called from several threads at once.
struct Callbacks {
    std::function<Next(const Entry&)> visit;
    std::function<void(const Finished&)> finish;
    /// Merges the result `from` into `into`. Required if results have bytes.
    std::function<void(void* into, const void* from)> merge;
    std::function<void(const Failure&)> fail;
    std::function<void(const Task&)> work;
    /// For checkpoints. `save` returns what this rank's caller has counted outside of results; no
    /// other callback runs meanwhile, and on rank 0 all messages of the other ranks have been
    /// received. `load` receives these bytes before a walk resumes, once for each rank that saved
    /// some. They may be forged: `load` returns false if save() does not write such bytes, and then
    /// nothing is walked.
    std::function<std::string()> save;
    std::function<bool(std::string_view)> load;
};

struct Totals {
    u64 entries = 0;      // visited, roots included
    u64 directories = 0;  // opened and read
    u64 failures = 0;
    bool stopped = false;
    /// With a group: what this rank sent, and its share of the entries. The other members are sums
    /// over all ranks.
    u64 messages = 0;
    u64 message_bytes = 0;
    u64 own_entries = 0;
    bool interrupted = false;  // stopped by Options::interrupt, after a checkpoint was written
};

/// Walks the trees at `roots`. The results of all roots are merged into `result` unless it is null.
///
/// With a group the roots are those that rank 0 passes, resolved by each rank in its own current
/// directory, and only rank 0 receives the result. If memory runs out, in callbacks too, the walk
/// stops and all ranks throw std::bad_alloc. If it runs out on a thread that exchanges messages
/// with other ranks, the process ends. Throws std::system_error if not even one thread can be
/// started.
Totals walk(std::span<const std::string> roots, const Options& options, const Callbacks& callbacks,
            void* result = nullptr);

/// Distinguishes the first name of a file with several names from the others. A file all of whose
/// names have been seen is dropped, so memory is bounded by the files with names still to come.
class LinkSet {
 public:
    LinkSet();
    ~LinkSet();
    LinkSet(const LinkSet&) = delete;
    LinkSet& operator=(const LinkSet&) = delete;

    /// Whether this is the first name to be seen of a file with `links` names. Can be called from
    /// any thread.
    bool is_first(u64 device, u64 inode, u32 links);
    /// Like is_first() for a file that can be seen any number of times and is never dropped.
    bool is_new(u64 device, u64 inode);
    /// The number of files that are remembered.
    u64 size() const;
    /// Calls `visitor` for each remembered file. Only one thread at a time may use the set
    /// meanwhile.
    void visit(const std::function<void(u64 device, u64 inode, u32 names_left)>& visitor) const;
    void remember(u64 device, u64 inode, u32 names_left);

 private:
    struct Shard;
    Shard* shards_;
};

/// The device number of the file system of a status, as LinkSet and Entry::add_once() take it.
inline u64 device_of(const struct statx& status) {
    return u64{status.stx_dev_major} << 32 | status.stx_dev_minor;
}

}  // namespace warren::walk
