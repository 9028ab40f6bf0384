// SPDX-License-Identifier: Apache-2.0
// What ranks owe each other: the rules by which the result of work that was given away finds its
// way back, apart from files, threads and memory, so that tests can go through all that may happen.
//
// Invariant: a loan is made when work leaves the rank whose directory it belongs to, and ended by
// one result, whoever did the work in the end; until then it keeps the directory unfinished.
#pragma once

#include <algorithm>
#include <unordered_map>

#include "base/check.hpp"
#include "walk/node.hpp"
#include "walk/pool.hpp"

namespace warren::walk {

/// Whether an item that is given away takes the loan along by which it came here. If not, the
/// result has to come by this rank, which lends anew: something else of the directory is here too.
constexpr bool passes_on(NodeKind kind, Work work, u32 pending) {
    return work == Work::directory ? kind == NodeKind::adopted
                                   : kind == NodeKind::part && pending == 1;
}

/// Where the result of a directory goes that is done here.
enum class ResultGoes : u8 { above, home, nowhere };
constexpr ResultGoes result_of(NodeKind kind) {
    if (kind == NodeKind::ghost) return ResultGoes::nowhere;
    return kind == NodeKind::own ? ResultGoes::above : ResultGoes::home;
}

/// Whether the rank owes somebody this directory, which keeps it from being passive: another rank,
/// or whoever called walk().
constexpr bool is_owed(NodeKind kind, bool has_above) {
    return kind == NodeKind::own ? !has_above : kind != NodeKind::ghost;
}

/// The loans of one rank that are still out. Place: what a result belongs to.
template <class Place>
class Loans {
 public:
    Home lend(u32 rank, const Place& place) {
        // A number of its own among all ranks, also of walks that were taken up again.
        const u64 loan = u64{rank} << loan_rank_shift | ++made_;
        out_[loan] = place;
        return {rank, loan};
    }
    Place take_back(u64 loan) {
        const auto found = out_.find(loan);
        WARREN_CHECK(found != out_.end());
        const Place place = found->second;
        out_.erase(found);
        return place;
    }
    const std::unordered_map<u64, Place>& out() const { return out_; }

    u64 made() const { return made_; }
    void go_on_from(u64 made) { made_ = std::max(made_, made); }
    void set(u64 loan, const Place& place) { out_[loan] = place; }

 private:
    std::unordered_map<u64, Place> out_;
    u64 made_ = 0;
};

}  // namespace warren::walk
