// SPDX-License-Identifier: Apache-2.0
// The queue of rank 0 in the schedulers where all work goes through it: work batches as they came,
// up to a limit in memory, the oldest beyond it in a temporary file. The youngest goes out first,
// so that a branch of the tree is done before the next is begun: with the oldest first nearly all
// directories of a tree would be unfinished at once, on the other ranks, which keep them.
//
// Invariant: the file holds the oldest work batches, one behind the other in the order of their
// age. For each of them the owners of its items stay in memory, so if one cannot be read again its
// owners still get (empty) results.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "walk/node.hpp"
#include "walk/spill_store.hpp"

namespace warren::walk {

class CentralQueue {
 public:
    /// How many results the waiting items will return under one lease of an owner.
    struct Due {
        Owner owner;
        u64 results;
    };

    explicit CentralQueue(u64 memory_bytes, std::unique_ptr<SpillStore> store = temporary_store());

    /// Takes the work batch in any case. After an error more than the limit is in memory.
    Errc push(std::string batch);
    /// Takes out the youngest work batch. After an error it is gone, and `lost` has the results
    /// due. Requires: there is one.
    Errc pop(std::string& batch, std::vector<Due>& lost);
    /// Shows all work batches, the oldest first, until there is an error.
    Errc visit(const std::function<void(std::string_view)>& visitor) const;

    bool is_empty() const { return waiting_.empty(); }
    u64 work_batches() const { return waiting_.size(); }
    u64 items() const { return items_; }
    /// In the file.
    u64 spilled_bytes() const { return end_; }

 private:
    struct Waiting {
        std::string bytes;  // empty: in the file
        u64 offset = 0;
        u32 size = 0;
        u32 checksum = 0;
        std::vector<Due> due;

        u64 memory() const { return bytes.size() + sizeof(Waiting) + due.size() * sizeof(Due); }
    };

    Errc read(const Waiting& waiting, std::string& batch) const;
    void shrink();

    const u64 memory_bytes_;
    std::unique_ptr<SpillStore> store_;
    std::deque<Waiting> waiting_;
    size_t spilled_ = 0;  // the first so many
    u64 used_bytes_ = 0;  // by the others
    u64 items_ = 0;
    u64 end_ = 0;     // of what the file holds
    u64 stored_ = 0;  // and of what lies behind it and has been read again
};

}  // namespace warren::walk
