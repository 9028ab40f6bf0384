// SPDX-License-Identifier: Apache-2.0
// What ranks owe each other: the rules by which the result of work that was given away finds its
// way back, apart from files, threads and memory, so that tests can go through all that may happen.
//
// Invariant: work that leaves the rank whose directory it belongs to goes by the loan of that
// directory, and each piece comes back as one result, whoever did the work in the end; until all of
// them are back the directory is unfinished. So there is one loan for each unfinished directory,
// however much of it is elsewhere.
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

/// The loans of one rank that are still out. Place: what the results belong to.
template <class Place>
class Loans {
 public:
    struct Loan {
        Place place;
        u64 due = 0;  // results that are to come back
    };

    /// For one more piece of work that belongs to the place.
    Home lend(u32 rank, const Place& place) {
        u64& loan = loan_of_[place];
        // A number of its own among all ranks, also of walks that were taken up again.
        if (loan == 0) loan = u64{rank} << loan_rank_shift | ++made_;
        Loan& out = out_[loan];
        out.place = place;
        ++out.due;
        return {rank, loan};
    }
    Place take_back(u64 loan) {
        const auto found = out_.find(loan);
        WARREN_CHECK(found != out_.end());
        const Place place = found->second.place;
        if (--found->second.due > 0) return place;
        out_.erase(found);
        const auto last = loan_of_.find(place);
        if (last != loan_of_.end() && last->second == loan) loan_of_.erase(last);
        return place;
    }
    const std::unordered_map<u64, Loan>& out() const { return out_; }

    u64 made() const { return made_; }
    void go_on_from(u64 made) { made_ = std::max(made_, made); }
    void set(u64 loan, const Loan& out) { out_[loan] = out; }

 private:
    std::unordered_map<u64, Loan> out_;
    std::unordered_map<Place, u64> loan_of_;
    u64 made_ = 0;
};

}  // namespace warren::walk
