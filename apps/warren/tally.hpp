// SPDX-License-Identifier: Apache-2.0
// Counts what a command that changes trees has done, over all threads, and prints it as one JSON
// object at the end (--json of rm, cp, sync, chmod and chown).
//
// Invariant: the counts of a resumed run include what was done up to its checkpoint, and rank 0
// sums up those of several ranks.
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

    /// From any thread; `which` is the index of a name.
    void add(size_t which, u64 amount = 1) {
        counts_[which].fetch_add(amount, std::memory_order_relaxed);
    }
    /// Saves the counts for a checkpoint, and restores them.
    std::string save() const;
    /// Returns false, without any change, if the data are too short.
    bool load(walk::ByteReader& saved);
    /// Prints the object at rank 0, with the number of failures. Called by all ranks.
    void print(u64 failures) const;

 private:
    std::vector<const char*> names_;
    std::deque<std::atomic<u64>> counts_;
};

}  // namespace warren::cli
