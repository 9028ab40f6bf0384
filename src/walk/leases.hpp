// SPDX-License-Identifier: Apache-2.0
// What ranks owe each other: the rules by which the result of work that was given away finds its
// way back, apart from files, threads and memory, so that tests can go through all that may happen.
//
// Invariant: work that leaves the rank whose directory it belongs to goes by the lease of that
// directory, and each piece comes back as one result, whoever did the work in the end; until all of
// them are back the directory is unfinished. So there is one lease for each unfinished directory,
// however much of it is elsewhere.
#pragma once

#include <algorithm>
#include <unordered_map>

#include "base/check.hpp"
#include "walk/node.hpp"
#include "walk/pool.hpp"

namespace warren::walk {

/// Whether an item that is given away takes the lease along by which it came here. If not, the
/// result has to come by this rank, which lends anew: something else of the directory is here too.
constexpr bool passes_on(NodeKind kind, Work work, u32 pending) {
    return work == Work::directory ? kind == NodeKind::adopted
                                   : kind == NodeKind::part && pending == 1;
}

/// Where the result of a directory goes that is done here.
enum class ResultTarget : u8 { above, owner, nowhere };
constexpr ResultTarget result_target(NodeKind kind) {
    if (kind == NodeKind::ghost) return ResultTarget::nowhere;
    return kind == NodeKind::own ? ResultTarget::above : ResultTarget::owner;
}

/// Whether the rank owes somebody this directory, which keeps it from being passive: another rank,
/// or whoever called walk().
constexpr bool is_owed(NodeKind kind, bool has_above) {
    return kind == NodeKind::own ? !has_above : kind != NodeKind::ghost;
}

/// The leases of one rank that are still out. Place: what the results belong to.
template <class Directory>
class Leases {
 public:
    struct Lease {
        Directory directory;
        u64 due = 0;  // results that are to come back
    };

    /// For one more piece of work that belongs to the place.
    Owner issue(u32 rank, const Directory& directory) {
        u64& lease = lease_of_[directory];
        // A number of its own among all ranks, also of walks that were taken up again.
        if (lease == 0) lease = u64{rank} << lease_rank_shift | ++issued_;
        Lease& out = out_[lease];
        out.directory = directory;
        ++out.due;
        return {rank, lease};
    }
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
