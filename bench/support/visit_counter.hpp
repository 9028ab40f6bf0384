// SPDX-License-Identifier: Apache-2.0
// Counts what many threads visit. Invariant: threads of the pool do not share a cache line.
#pragma once

#include <atomic>
#include <iterator>

#include "fs/engine/cpu/cpu_engine.hpp"
#include "warren/types.hpp"

namespace warren::bench {

class VisitCounter {
 public:
    void add() { cells_[this_team().worker % std::size(cells_)].count.fetch_add(1, relaxed); }
    u64 sum() const {
        u64 all = 0;
        for (const Cell& cell : cells_)
            all += cell.count.load(relaxed);
        return all;
    }
    void clear() {
        for (Cell& cell : cells_)
            cell.count.store(0, relaxed);
    }

 private:
    static constexpr std::memory_order relaxed = std::memory_order_relaxed;
    struct alignas(64) Cell {
        std::atomic<u64> count{0};
    };
    Cell cells_[64];
};

}  // namespace warren::bench
