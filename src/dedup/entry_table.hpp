// SPDX-License-Identifier: Apache-2.0
// The entries of an index: an open hash table in memory, and beyond its limit sorted runs in a file
// without a name. The runs are mapped, so the system can reclaim their memory.
//
// Invariant: a key is in the table or in one run, never in two.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "warren/dedup.hpp"

namespace warren::dedup {

/// Sorted entries in a file that vanishes with this object.
class SortedRun {
 public:
    SortedRun() = default;
    ~SortedRun();
    SortedRun(SortedRun&& other) noexcept;
    SortedRun& operator=(SortedRun&& other) noexcept;

    /// Room for `count` entries in a new file of `folder`.
    Errc create(const std::string& folder, u64 count);
    Entry* find(const Key& key) const;
    std::span<Entry> entries() const { return {entries_, count_}; }

 private:
    Entry* entries_ = nullptr;
    u64 count_ = 0;
};

class EntryTable {
 public:
    /// Takes at most `memory_bytes` (0: no limit), also while it grows, and spills to `folder`.
    void open(u64 memory_bytes, std::string folder);
    /// Fills an empty table with `count` entries by rising key, which `read` gives in groups of
    /// `group` and a rest.
    Errc load(u64 count, u64 group, const std::function<Errc(std::span<Entry>)>& read);

    /// The entry of the chunk's key, counted once more; a new one if there is none.
    Errc add(const Chunk& chunk, Entry& found);
    /// Takes over an entry in the place of that of its key. Requires: there is one.
    void replace(const Entry& entry) { const_cast<Entry&>(*find(entry.key)) = entry; }
    const Entry* find(const Key& key) const;

    u64 entries() const { return used_ + spilled_; }
    u64 spilled_entries() const { return spilled_; }
    u64 memory_bytes() const { return slots_.size() * sizeof(Entry); }
    /// Visits all entries by rising key until `visit` returns an error, which is the result. Needs
    /// half as much memory as the entries in memory take.
    Errc visit_sorted(const std::function<Errc(const Entry&)>& visit) const;
    /// How many of the entries are so.
    u64 count_if(const std::function<bool(const Entry&)>& is_so) const;

 private:
    Entry* find_slot(const Key& key) const;
    Errc insert(const Entry& entry);
    Errc make_room();
    void grow();
    Errc spill();
    Errc merge_runs();

    mutable std::vector<Entry> slots_;  // a slot with a count of 0 is free
    u64 used_ = 0;
    u64 most_slots_ = 0;
    u64 spilled_ = 0;
    std::string folder_;
    std::vector<SortedRun> runs_;
};

}  // namespace warren::dedup
