// SPDX-License-Identifier: Apache-2.0
// The queue of rank 0 under the schedulers that pass all work through it. It keeps work batches as
// they were received: in memory up to a limit, and beyond it the oldest in a temporary file. The
// youngest batch is taken first, so that one branch of the tree is finished before the next is
// begun. Taking the oldest first would leave nearly all directories of the tree unfinished at once,
// each kept in memory by the rank that read it.
//
// Invariant: the file holds the oldest work batches, ordered by age. The owners of their items stay
// in memory: if a batch cannot be read back, its owners still get (empty) results.
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
    /// How many results the waiting items will return to an owner under one of its leases.
    struct Due {
        Owner owner;
        u64 results;
    };

    explicit CentralQueue(u64 memory_bytes, std::unique_ptr<SpillStore> store = temporary_store());

    /// Takes the work batch in any case. If writing to the file fails, returns the error, and
    /// memory exceeds its limit.
    Errc push(std::string batch);
    /// Removes and returns the youngest work batch. If it cannot be read back, it is dropped all
    /// the same, and `lost` lists the results that its owners wait for. Requires: the queue is not
    /// empty.
    Errc pop(std::string& batch, std::vector<Due>& lost);
    /// Calls `visitor` with each work batch, the oldest first. Stops at the first error and returns
    /// it.
    Errc visit(const std::function<void(std::string_view)>& visitor) const;

    bool is_empty() const { return waiting_.empty(); }
    u64 work_batches() const { return waiting_.size(); }
    u64 items() const { return items_; }
    /// Bytes of work batches in the file.
    u64 spilled_bytes() const { return end_; }

 private:
    struct Waiting {
        std::string bytes;  // empty: the batch is in the file
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
    size_t spilled_ = 0;  // how many of `waiting_`, from the front, are in the file
    u64 used_bytes_ = 0;  // memory of the others
    u64 items_ = 0;
    u64 end_ = 0;     // where the work batches in the file end
    u64 stored_ = 0;  // size of the file, which may still contain batches that were read back
};

}  // namespace warren::walk
