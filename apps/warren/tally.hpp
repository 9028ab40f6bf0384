// SPDX-License-Identifier: Apache-2.0
// What a command that changes trees has done, counted by its threads and told as one JSON object
// when it ends (--json of rm, cp, sync, chmod and chown).
//
// Invariant: counts of a run that goes on from a checkpoint hold what was done up to there, and
// those of several ranks are summed up by rank 0.
#pragma once

#include <atomic>
#include <deque>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "walk/bytes.hpp"
#include "warren/types.hpp"

namespace warren::cli {

class Tally {
 public:
    explicit Tally(std::initializer_list<const char*> names);

    /// From any thread; `which` is the place of a name.
    void add(size_t which, u64 amount = 1) {
        counts_[which].fetch_add(amount, std::memory_order_relaxed);
    }
    /// For a checkpoint, and the same again.
    std::string save() const;
    /// False if there is too little; nothing has changed then.
    bool load(walk::ByteReader& saved);
    /// Prints the object, at rank 0, with how many failures there were. All call it.
    void print(u64 failures) const;

 private:
    std::vector<const char*> names_;
    std::deque<std::atomic<u64>> counts_;
};

}  // namespace warren::cli
