// SPDX-License-Identifier: Apache-2.0
// The entries below the source of a clone, which a scan finds before batches clone them. Millions
// of them are in memory at the same time, so each is a record of a few words with its name behind
// it.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <limits>
#include <mutex>
#include <new>
#include <string_view>
#include <vector>

#include "base/check.hpp"
#include "base/reserved_range.hpp"
#include "fs/engine/cpu/cpu_engine.hpp"
#include "warren/volume.hpp"

namespace warren {

struct ClonedDirectory;

/// A directory in which a worker of the scan has found entries.
struct CloneParent {
    Handle directory;
    const ClonedDirectory* into = nullptr;  // null: that directory is not cloned
};

struct CloneEntry {
    u64 inode;
    u32 generation;
    u16 name_length;
    bool has_more_names;
    bool is_directory;
    CloneParent* parent;
    // The name follows.

    Handle source() const { return {inode, generation}; }
    const ClonedDirectory* into() const { return parent->into; }
    std::string_view name() const { return {reinterpret_cast<const char*>(this + 1), name_length}; }
    /// Of an entry with a name of so many bytes.
    static constexpr u64 bytes_for(u64 name_bytes) {
        return sizeof(CloneEntry) +
               (name_bytes + alignof(CloneEntry) - 1) / alignof(CloneEntry) * alignof(CloneEntry);
    }
};

struct FoundDirectory {
    const CloneEntry* entry;
    Attributes attributes;
    u32 depth;
};

/// What one worker has found.
class CloneShard {
 public:
    /// Throws std::bad_alloc.
    void add(const Scanned& found) {
        const std::lock_guard lock(mutex_);
        if (parents_.empty() || parents_.back().directory != found.directory) {
            parents_.push_back({found.directory});
        }
        const Handle source = found.attributes.handle;
        const bool is_directory = format::is_directory(found.attributes.mode);
        const u64 length = found.name.size();
        WARREN_CHECK(length <= std::numeric_limits<u16>::max());
        auto* const entry = new (take(CloneEntry::bytes_for(length))) CloneEntry{
            source.inode, source.generation, static_cast<u16>(length), found.attributes.links > 1,
            is_directory, &parents_.back()};
        std::memcpy(entry + 1, found.name.data(), length);
        if (is_directory) directories_.push_back({entry, found.attributes, found.depth});
    }

    std::deque<CloneParent>& parents() { return parents_; }
    std::vector<FoundDirectory>& directories() { return directories_; }
    /// Calls `body(entry)` for each entry that is no directory.
    template <class Body>
    void for_each(const Body& body) const {
        for (u64 at = 0; at < used_;) {
            const auto& entry = *reinterpret_cast<const CloneEntry*>(entries_.data() + at);
            if (!entry.is_directory) body(entry);
            at += CloneEntry::bytes_for(entry.name_length);
        }
    }

    /// No entry may be used any more.
    void free_entries() { entries_.give_back(0); }

 private:
    static constexpr u64 bytes_max = 16 * gib;  // addresses, not memory
    static constexpr u64 step_min = 64 * kib;
    static constexpr u64 step_max = 4 * mib;

    std::byte* take(u64 bytes) {
        if (entries_.data() == nullptr) entries_ = ReservedRange(bytes_max);
        if (entries_.data() == nullptr || used_ + bytes > bytes_max) throw std::bad_alloc();
        if (used_ + bytes > populated_) {
            populated_ += std::clamp(populated_, step_min, step_max);
            entries_.populate(populated_);
        }
        std::byte* const at = entries_.data() + used_;
        used_ += bytes;
        return at;
    }

    std::mutex mutex_;
    ReservedRange entries_;
    u64 used_ = 0;
    u64 populated_ = 0;
    std::deque<CloneParent> parents_;
    std::vector<FoundDirectory> directories_;
};

/// add() may be called by many threads, all else by one afterwards.
class CloneList {
 public:
    static constexpr std::size_t shard_count = 64;

    /// Throws std::bad_alloc.
    void add(const Scanned& found) { shards_[this_team().worker % shards_.size()].add(found); }

    /// The directories by their depth, those of one depth in any order.
    std::vector<std::vector<FoundDirectory*>> directories() {
        std::vector<std::vector<FoundDirectory*>> depths;
        for (CloneShard& shard : shards_) {
            for (FoundDirectory& one : shard.directories()) {
                if (depths.size() <= one.depth) depths.resize(one.depth + 1);
                depths[one.depth].push_back(&one);
            }
        }
        return depths;
    }
    std::array<CloneShard, shard_count>& shards() { return shards_; }

 private:
    std::array<CloneShard, shard_count> shards_;
};

}  // namespace warren
