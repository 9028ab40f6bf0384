// SPDX-License-Identifier: Apache-2.0
// The entries below the source of a clone, which a scan finds before batches clone them.
#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "fs/engine/cpu/cpu_engine.hpp"
#include "warren/volume.hpp"

namespace warren {

struct ClonedDirectory;

/// An entry that is no directory. Millions of them are in memory at the same time.
struct CloneEntry {
    Handle source;
    Handle directory;                       // where the scan has found it
    const ClonedDirectory* into = nullptr;  // null: that directory is not cloned
    const char* name_bytes = nullptr;
    u32 name_length = 0;
    bool has_more_names = false;

    std::string_view name() const { return {name_bytes, name_length}; }
};

/// A directory; its name lies behind `entry`.
struct FoundDirectory {
    CloneEntry entry;
    Attributes attributes;
    u32 depth;
};

/// add() may be called by many threads, the other functions by one afterwards.
class CloneList {
 public:
    /// Throws std::bad_alloc.
    void add(const Scanned& found) {
        Shard& shard = shards_[this_team().worker % shards_.size()];
        const std::lock_guard lock(shard.mutex);
        CloneEntry entry{found.attributes.handle, found.directory};
        entry.name_bytes = shard.keep(found.name);
        entry.name_length = static_cast<u32>(found.name.size());
        if (format::is_directory(found.attributes.mode)) {
            shard.directories.push_back({entry, found.attributes, found.depth});
            return;
        }
        entry.has_more_names = found.attributes.links > 1;
        if (shard.chunks.empty() || shard.chunks.back().size() == chunk_entries) {
            shard.chunks.emplace_back().reserve(chunk_entries);
        }
        shard.chunks.back().push_back(entry);
    }

    /// The directories by their depth, those of one depth in any order.
    std::vector<std::vector<FoundDirectory*>> directories() {
        std::vector<std::vector<FoundDirectory*>> depths;
        for (Shard& shard : shards_) {
            for (FoundDirectory& one : shard.directories) {
                if (depths.size() <= one.depth) depths.resize(one.depth + 1);
                depths[one.depth].push_back(&one);
            }
        }
        return depths;
    }

    /// All other entries, in chunks.
    std::vector<std::vector<CloneEntry>*> chunks() {
        std::vector<std::vector<CloneEntry>*> all;
        for (Shard& shard : shards_) {
            for (std::vector<CloneEntry>& chunk : shard.chunks)
                all.push_back(&chunk);
        }
        return all;
    }

 private:
    static constexpr std::size_t chunk_entries = 1024;
    static constexpr std::size_t block_bytes = 64 * kib;

    struct Shard {
        std::mutex mutex;
        std::vector<std::vector<CloneEntry>> chunks;
        std::vector<FoundDirectory> directories;
        std::vector<std::unique_ptr<char[]>> blocks;  // of names
        std::size_t used = block_bytes;               // of the last block

        const char* keep(std::string_view name) {
            if (block_bytes - used < name.size()) {
                blocks.push_back(std::make_unique_for_overwrite<char[]>(block_bytes));
                used = 0;
            }
            char* const at = blocks.back().get() + used;
            std::memcpy(at, name.data(), name.size());
            used += name.size();
            return at;
        }
    };

    std::array<Shard, 64> shards_;
};

}  // namespace warren
