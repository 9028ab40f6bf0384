// SPDX-License-Identifier: Apache-2.0
// The rules by which the result of work that was given away gets back to its owner, the rank that
// waits for it. They involve no files, threads or memory, so tests can explore every interleaving.
//
// Invariant: work that leaves the rank of its directory carries the lease of that directory, and
// each item of work returns one result, whichever rank processes it in the end. Until all results
// are back the directory is unfinished. So a directory has one lease, however much of it is
// elsewhere.
#pragma once

#include <algorithm>
#include <unordered_map>

#include "base/check.hpp"
#include "walk/node.hpp"
#include "walk/pool.hpp"

namespace warren::walk {

/// Whether an item that is given away keeps the lease under which it arrived, so that its result
/// goes directly to the owner. Otherwise something else of the directory is on this rank too, and
/// this rank issues a lease of its own and merges the results.
constexpr bool passes_on(NodeKind kind, Work work, u32 pending) {
    return work == Work::directory ? kind == NodeKind::adopted
                                   : kind == NodeKind::part && pending == 1;
}

/// Where the result of a directory goes when it is finished on this rank.
enum class ResultTarget : u8 { above, owner, nowhere };
constexpr ResultTarget result_target(NodeKind kind) {
    if (kind == NodeKind::ghost) return ResultTarget::nowhere;
    return kind == NodeKind::own ? ResultTarget::above : ResultTarget::owner;
}

/// Whether another rank, or the caller of walk(), waits for the result of this directory. A rank
/// with such a directory is not passive.
constexpr bool is_owed(NodeKind kind, bool has_above) {
    return kind == NodeKind::own ? !has_above : kind != NodeKind::ghost;
}

/// The leases of one rank under which results are due. `Directory` identifies what a lease belongs
/// to.
template <class Directory>
class Leases {
 public:
    struct Lease {
        Directory directory;
        u64 due = 0;  // results that have not come back yet
    };

    /// Issues the lease of the directory for one more item of work that belongs to it.
    Owner issue(u32 rank, const Directory& directory) {
        u64& lease = lease_of_[directory];
        // Unique among all ranks, and among the leases of a resumed walk.
        if (lease == 0) lease = u64{rank} << lease_rank_shift | ++issued_;
        Lease& out = out_[lease];
        out.directory = directory;
        ++out.due;
        return {rank, lease};
    }
    /// Counts one result that came back under the lease. Returns the directory to which it belongs.
    Directory take_back(u64 lease) {
        const auto found = out_.find(lease);
        WARREN_CHECK(found != out_.end());
        const Directory directory = found->second.directory;
        if (--found->second.due > 0) return directory;
        out_.erase(found);
        const auto last = lease_of_.find(directory);
        if (last != lease_of_.end() && last->second == lease) lease_of_.erase(last);
        return directory;
    }
    const std::unordered_map<u64, Lease>& out() const { return out_; }

    u64 issued() const { return issued_; }
    void go_on_from(u64 issued) { issued_ = std::max(issued_, issued); }
    void set(u64 lease, const Lease& out) { out_[lease] = out; }

 private:
    std::unordered_map<u64, Lease> out_;
    std::unordered_map<Directory, u64> lease_of_;
    u64 issued_ = 0;
};

}  // namespace warren::walk
