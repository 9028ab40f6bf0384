// SPDX-License-Identifier: Apache-2.0
// The state of one rank between two checkpoints as bytes: directories that are not finished, with
// what they have so far, what waits, leases, and files whose names are being counted. A directory
// is numbered after that above it, from 1; 0 stands for none. Another rank may load the state.
//
// Invariant: a walk can resume from a state that was read, also if it was forged: a number leads to
// something that is there, ways up end, a name is that of an entry or of a root of this walk, and
// everything that is unfinished has something that will finish it. Nothing is used before all of it
// is read.
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

/// What a walk that goes on knows without its checkpoint.
struct SavedWalk {
    u32 ranks = 0;  // that have written the checkpoint
    u32 result_bytes = 0;
    std::span<const std::string> roots;
};

/// All strings belong to what it is written from, or to the bytes that were read.
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
        std::string_view result;  // none of a ghost
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

    u64 work_batches = 0;          // in the file of the rank's queue; there is none without
    std::vector<u32> walks_since;  // of the walks that went on since: how many ranks each had
    Counts counts;
    std::string_view result;  // of the whole walk, at the rank that has it
    std::string_view caller;  // what Callbacks::save() said
    std::vector<Directory> directories;
    std::vector<Waiting> waiting;
    std::vector<Lease> leases;
    std::vector<File> files;
};

std::string write_saved(const SavedRank& saved);
/// Errc::corrupt: no rank of such a walk wrote that.
Errc read_saved(std::string_view bytes, const SavedWalk& walk, SavedRank& saved);

/// Whether each result that is due will come, all ranks and the queue of rank 0 taken together.
class SavedLeases {
 public:
    /// Adds a rank's leases and the results that it owes. False: another rank has one of the
    /// leases.
    bool add(u32 rank, const SavedRank& saved);
    /// Something in the queue of rank 0 that will end with a result.
    void owe(const Owner& owner) { ++owed_[owner]; }
    bool are_even() const { return due_ == owed_; }

 private:
    std::set<u64> leases_;
    std::map<Owner, u64> due_;
    std::map<Owner, u64> owed_;
};

/// The rank that has taken over the leases in the last of `walks`, which may have had fewer ranks
/// than the one before.
Owner owner_after(Owner owner, std::span<const u32> walks);

/// Whether a work batch of a queue that was saved can be taken over; calls `visitor` with the
/// owner of each item. If it cannot be, `visitor` was called for the items before the error.
bool check_saved_batch(std::string_view batch, const SavedWalk& walk,
                       const std::function<void(const Owner&)>& visitor);

}  // namespace warren::walk
