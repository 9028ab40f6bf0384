// SPDX-License-Identifier: Apache-2.0
// Sorts records by key, for lists that grow with a tree: in memory up to a limit, beyond it in
// sorted runs in a temporary file, which are merged as they are read.
//
// Invariant: memory is bounded by the limit and one buffer per run, however much is added. After an
// error nothing more is accepted or returned, and error() keeps returning it.
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

    /// Adds a record. Can be called from any thread. Requires: key and value are below 4 GiB each.
    Errc add(std::string_view key, std::string_view value);
    /// Gets the next record in the byte order of the keys, records with equal keys in the order in
    /// which they were added. Returns false after the last one and after an error. Both views are
    /// valid until the next call. Requires: all records have been added. Called on one thread at a
    /// time.
    bool next(std::string_view& key, std::string_view& value);
    /// The first error.
    Errc error() const;

    u64 count() const { return count_; }
    /// The number of runs in the file; 0: everything is in memory.
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
    mutable std::mutex mutex_;  // guards the members below
    Errc error_ = Errc::ok;
    u64 count_ = 0;
    std::string bytes_;  // keys and values
    std::vector<Place> places_;
    std::vector<Run> runs_;
    u64 stored_bytes_ = 0;
    // While reading:
    bool is_read_ = false;
    size_t given_ = 0;  // records of places_ returned so far
    size_t last_run_ = ~size_t{0};
    std::priority_queue<Head, std::vector<Head>, std::greater<>> heads_;
};

}  // namespace warren::walk
