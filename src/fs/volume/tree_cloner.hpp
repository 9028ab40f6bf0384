// SPDX-License-Identifier: Apache-2.0
// Clones files and whole trees. The clone grows in a staging directory, which has a name only in
// the orphan directory, and gets its own name at the end by a rename. So no other caller sees it
// incomplete, and after a crash it is freed like the rest of a removal. Below the staging
// directory, which no other caller sees, the cloner acts without permission checks.
//
// The workers that scan the source clone each entry that they find, one inode per operation. For an
// engine with batches they list the entries, and batches clone them: directories depth by depth,
// then the rest; what a batch leaves is cloned by operations. Each file is cloned atomically, but
// the tree is not: names that change meanwhile may be in the clone or not.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "fs/volume/clone_list.hpp"
#include "fs/volume/volume_implementation.hpp"

namespace warren {

/// For tables by handle: an inode number may be given to another file while a tree is cloned.
struct HandleHash {
    std::size_t operator()(const Handle& handle) const {
        return std::hash<u64>{}(handle.inode ^ u64{handle.generation} << 40);
    }
};

/// A directory of the source and its clone.
struct ClonedDirectory {
    Handle source;
    Handle target;
    const ClonedDirectory* above = nullptr;  // null: the root of the source
    std::string name;
    i64 accessed = 0;
    i64 modified = 0;
};

/// The directories cloned so far. Thread-safe.
class ClonedDirectories {
 public:
    /// Null if the directory has not been cloned.
    const ClonedDirectory* find(Handle source);
    /// Adds a directory, unless it is already there.
    void add(ClonedDirectory directory);
    /// Calls `body(directory)` for each directory, on the thread pool.
    void for_each(ThreadPool& thread_pool, const std::function<void(const ClonedDirectory&)>& body);

 private:
    struct Shard {
        std::shared_mutex mutex;
        std::unordered_map<Handle, ClonedDirectory, HandleHash> of;  // by the source
    };
    Shard& shard_of(u64 inode) { return shards_[inode % shards_.size()]; }

    std::array<Shard, 64> shards_;
};

class TreeCloner {
 public:
    TreeCloner(Volume& api, VolumeImplementation& volume, const Caller& caller)
        : api_(api), volume_(volume), caller_(caller) {}

    /// See Volume::clone().
    Errc clone(Handle source, Handle directory, std::string_view name, ClonedTree& done);

 private:
    Errc check_target(const Attributes& source, Handle directory, std::string_view name);
    Errc check_not_below(Handle source, Handle directory);
    Errc make_staging();
    Errc grow(const Attributes& source);
    Errc clone_by_operations(Handle source);
    Errc clone_by_batches(Handle source);
    Errc list(Handle source, CloneList& entries);
    void clone_directories(std::vector<FoundDirectory*> found);
    void clone_others(CloneList& entries);
    void clone_left(std::span<const CloneEntry* const> left);
    bool is_skipped(Errc code, const CloneEntry& entry);
    Errc attach(Handle directory, std::string_view name);
    void remove_staging(bool is_empty);
    bool visit(const Scanned& entry);
    bool is_there(const Scanned& entry);
    Errc clone_entry(const Attributes& source, const ClonedDirectory& into, std::string_view name);
    Errc clone_linked(const Attributes& source, Handle directory, std::string_view name);
    Result<Handle> clone_inode(const Attributes& source, Handle directory, std::string_view name);
    Result<ops::Cloned> run_clone(const Attributes& source, Handle directory, std::string_view name,
                                  std::string_view link_target);
    Errc share_contents(Handle source, Handle target);
    Errc copy_attributes(Handle source, Handle target);
    void set_directory_times();
    bool has_failed() const { return error_.load(std::memory_order_relaxed) != Errc::ok; }
    void fail(Errc code, const ClonedDirectory* in, std::string_view name);

    Volume& api_;
    VolumeImplementation& volume_;
    const Caller& caller_;
    const i64 now_ = now_nanoseconds();
    Handle staging_;
    bool replaces_ = false;  // the name belongs to an empty directory
    ClonedDirectories directories_;
    bool keeps_times_ = false;  // names added by batches leave the times of directories alone
    // With keeps_times_: directories that got names by operations.
    std::unordered_set<const ClonedDirectory*> touched_;
    std::mutex linked_mutex_;  // guards linked_
    // Clones of files with several names, by source.
    std::unordered_map<Handle, Handle, HandleHash> linked_;
    std::atomic<u64> files_{0};
    std::atomic<u64> directory_count_{0};
    std::atomic<Errc> error_{Errc::ok};
    std::mutex failed_mutex_;  // guards failed_
    std::string failed_;       // the first path that could not be cloned, relative to the source
};

}  // namespace warren
