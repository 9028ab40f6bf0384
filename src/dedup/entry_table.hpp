// SPDX-License-Identifier: Apache-2.0
// The entries of an index: an open hash table in memory, and beyond the memory limit sorted runs in
// unnamed files. The runs are mapped, so the kernel can reclaim their memory.
//
// Invariant: a key is either in the table or in one run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/mapping.hpp"
#include "warren/dedup.hpp"

namespace warren::dedup {

/// Sorted entries in a file that disappears with this object.
class SortedRun {
 public:
    /// Creates a file in `folder` with room for `count` entries.
    Errc create(const std::string& folder, u64 count);
    Entry* find(const Key& key) const;
    std::span<Entry> entries() const {
        return {reinterpret_cast<Entry*>(memory_.get()), bytes_of(memory_) / sizeof(Entry)};
    }

 private:
    Mapping memory_;
};

class EntryTable {
 public:
    /// Limits memory to `memory_bytes` (0: unlimited), also while the table grows; spills to
    /// `folder`.
    void open(u64 memory_bytes, std::string folder);
    /// Fills an empty table with `count` entries in ascending order of keys, which `read` supplies
    /// in groups of `group` entries; the last group may be smaller.
    Errc load(u64 count, u64 group, const std::function<Errc(std::span<Entry>)>& read);

    /// Counts the chunk in the entry of its key, which is created if it does not exist, and returns
    /// the entry in `found`.
    Errc add(const Chunk& chunk, Entry& found);
    /// Replaces the entry with the same key. Requires: there is one.
    void replace(const Entry& entry) { const_cast<Entry&>(*find(entry.key)) = entry; }
    const Entry* find(const Key& key) const;

    u64 entries() const { return used_ + spilled_; }
    u64 spilled_entries() const { return spilled_; }
    u64 memory_bytes() const { return slots_.size() * sizeof(Entry); }
    /// Visits all entries in ascending order of keys until `visit` returns an error, which is then
    /// returned. Needs half as much memory as the entries in memory take.
    Errc visit_sorted(const std::function<Errc(const Entry&)>& visit) const;
    /// Counts the entries for which `is_so` returns true.
    u64 count_if(const std::function<bool(const Entry&)>& is_so) const;

 private:
    Entry* find_slot(const Key& key) const;
    Errc insert(const Entry& entry);
    Errc make_room();
    void grow();
    Errc spill();
    Errc merge_runs();

    mutable std::vector<Entry> slots_;  // a slot with count 0 is free
    u64 used_ = 0;
    u64 most_slots_ = 0;
    u64 spilled_ = 0;
    std::string folder_;
    std::vector<SortedRun> runs_;
};

}  // namespace warren::dedup
