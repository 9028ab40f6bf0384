// SPDX-License-Identifier: Apache-2.0
// Lists that grow with a tree, in the order of their keys: up to a limit in memory, beyond it in
// sorted runs in a temporary file, which are merged as they are read.
//
// Invariant: memory is bounded by the limit and a buffer for each run, however much is added. After
// an error nothing more is taken or given, and error() tells it until the end.
#pragma once

#include <memory>
#include <mutex>
#include <queue>
#include <string>
#include <string_view>
#include <vector>

#include "walk/spill_store.hpp"
#include "warren/result.hpp"
#include "warren/types.hpp"

namespace warren::walk {

class SpillSort {
 public:
    static constexpr u64 usual_memory_bytes = 64 * mib;

    explicit SpillSort(u64 memory_bytes = usual_memory_bytes,
                       std::unique_ptr<SpillStore> store = temporary_store());
    ~SpillSort();
    SpillSort(const SpillSort&) = delete;
    SpillSort& operator=(const SpillSort&) = delete;

    /// Adds a record; from any thread. Requires: key and value are below 4 GiB each.
    Errc add(std::string_view key, std::string_view value);
    /// The next record by the bytes of the keys, equal ones as they were added; false behind the
    /// last and after an error. Both are good until the next call. Requires: all was added; one
    /// thread at a time.
    bool next(std::string_view& key, std::string_view& value);
    /// What went wrong first.
    Errc error() const;

    u64 count() const { return count_; }
    /// 0: all of it is in memory.
    size_t runs() const;

 private:
    /// A record in memory.
    struct Place {
        u64 offset;
        u32 key_bytes;
        u32 value_bytes;
    };
    class Run;
    struct Head {
        std::string_view key;
        size_t run;
        bool operator>(const Head& other) const {
            return key != other.key ? key > other.key : run > other.run;
        }
    };

    std::string_view key_of(const Place& place) const;
    void sort();
    Errc spill();
    Errc begin_reading();
    Errc advance(size_t run);
    bool next_in_memory(std::string_view& key, std::string_view& value);

    const u64 memory_bytes_;
    std::unique_ptr<SpillStore> store_;
    mutable std::mutex mutex_;  // what follows
    Errc error_ = Errc::ok;
    u64 count_ = 0;
    std::string bytes_;  // keys and values
    std::vector<Place> places_;
    std::vector<Run> runs_;
    u64 stored_bytes_ = 0;
    // While it is read:
    bool is_read_ = false;
    size_t given_ = 0;  // of places_
    size_t last_run_ = ~size_t{0};
    std::priority_queue<Head, std::vector<Head>, std::greater<>> heads_;
};

}  // namespace warren::walk
