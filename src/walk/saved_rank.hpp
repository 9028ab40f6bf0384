// SPDX-License-Identifier: Apache-2.0
// The state of one rank in a checkpoint, as bytes: unfinished directories with the results that
// they have so far, waiting items, leases, and files whose names are being counted. Directories are
// numbered from 1, each after the one above it; 0 stands for none. Another rank may load the state.
//
// Invariant: a walk can resume from a state that was read, even a forged one: each number refers to
// something that exists, each path ends at a root, each name is that of an entry or of a root of
// this walk, and everything unfinished is held by something that will finish it. The state is used
// only after all of it has been read.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "walk/node.hpp"
#include "walk/pool.hpp"
#include "warren/result.hpp"

namespace warren::walk {

/// What a resumed walk knows independently of its checkpoint.
struct SavedWalk {
    u32 ranks = 0;  // that wrote the checkpoint
    u32 result_bytes = 0;
    std::span<const std::string> roots;
};

/// All strings refer to the data that are written, or to the bytes that were read.
struct SavedRank {
    struct Counts {
        u64 leases_issued = 0;
        u64 entries = 0;
        u64 directories = 0;
        u64 failures = 0;
    };
    struct Directory {
        u32 above = 0;
        NodeKind kind = NodeKind::own;
        bool has_identity = false;
        bool complete = false;
        Owner owner;
        Identity identity;
        i64 position = 0;
        u32 children = 0;
        std::string_view name;
        std::string_view result;  // empty for a ghost
    };
    struct Waiting {
        Work work = Work::directory;
        u32 directory = 0;
        std::optional<std::string_view> payload;
    };
    struct Lease {
        u64 number = 0;
        u32 directory = 0;
        u64 due = 0;
    };
    struct File {
        u64 device = 0;
        u64 inode = 0;
        u32 names_left = 0;
    };

    u64 work_batches = 0;          // in the file of the rank's queue; 0: no file
    std::vector<u32> walks_since;  // ranks of each run that has resumed since
    Counts counts;
    std::string_view result;  // of the whole walk, on the rank that has it
    std::string_view caller;  // what Callbacks::save() returned
    std::vector<Directory> directories;
    std::vector<Waiting> waiting;
    std::vector<Lease> leases;
    std::vector<File> files;
};

std::string write_saved(const SavedRank& saved);
/// Errc::corrupt: no rank of such a walk can have written these bytes.
Errc read_saved(std::string_view bytes, const SavedWalk& walk, SavedRank& saved);

/// Checks that each result due will come, over all ranks and the queue of rank 0.
class SavedLeases {
 public:
    /// Adds a rank's leases and the results that it owes. Returns false if another rank has one of
    /// the same leases.
    bool add(u32 rank, const SavedRank& saved);
    /// Counts an item in the queue of rank 0, which will return a result.
    void owe(const Owner& owner) { ++owed_[owner]; }
    bool will_all_come() const { return due_ == owed_ && !wait_in_a_circle(); }

 private:
    bool wait_in_a_circle() const;

    std::set<u64> leases_;
    std::map<Owner, u64> due_;
    std::map<Owner, u64> owed_;
    /// Of a lease whose directory must finish before a result can be returned: the lease under
    /// which that result is due.
    std::map<Owner, Owner> returned_under_;
};

/// The rank that took over the owner's leases in the last of `walks`, each of which may have had
/// fewer ranks than the one before.
Owner owner_after(Owner owner, std::span<const u32> walks);

/// Whether a work batch of a saved queue is valid. Calls `visitor` with the owner of each item; for
/// an invalid batch, with those of the items before the error.
bool check_saved_batch(std::string_view batch, const SavedWalk& walk,
                       const std::function<void(const Owner&)>& visitor);

}  // namespace warren::walk
