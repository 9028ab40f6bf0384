// SPDX-License-Identifier: Apache-2.0
// Files with several names are few. They are distributed over locks by the hash of their inode.
#include <mutex>
#include <unordered_map>

#include "warren/walk.hpp"

namespace warren::walk {

namespace {

constexpr size_t shard_count = 64;

struct File {
    u64 device;
    u64 inode;
    bool operator==(const File&) const = default;
};

struct FileHash {
    size_t operator()(const File& file) const {
        return (file.inode ^ file.device << 40) * 0x9e3779b97f4a7c15u;
    }
};

}  // namespace

struct LinkSet::Shard {
    std::mutex mutex;
    std::unordered_map<File, u32, FileHash> names_left;
};

LinkSet::LinkSet() : shards_(new Shard[shard_count]) {}

LinkSet::~LinkSet() {
    delete[] shards_;
}

bool LinkSet::is_first(u64 device, u64 inode, u32 links) {
    if (links < 2) return true;
    const File file{device, inode};
    Shard& shard = shards_[FileHash()(file) >> 58];
    std::lock_guard lock(shard.mutex);
    const auto [place, is_new] = shard.names_left.try_emplace(file, links - 1);
    if (is_new) return true;
    if (--place->second == 0) shard.names_left.erase(place);
    return false;
}

bool LinkSet::is_new(u64 device, u64 inode) {
    const File file{device, inode};
    Shard& shard = shards_[FileHash()(file) >> 58];
    std::lock_guard lock(shard.mutex);
    return shard.names_left.try_emplace(file, ~0u).second;
}

u64 LinkSet::size() const {
    u64 size = 0;
    for (size_t index = 0; index < shard_count; ++index) {
        std::lock_guard lock(shards_[index].mutex);
        size += shards_[index].names_left.size();
    }
    return size;
}

void LinkSet::visit(const std::function<void(u64, u64, u32)>& visitor) const {
    for (size_t index = 0; index < shard_count; ++index) {
        for (const auto& [file, names_left] : shards_[index].names_left)
            visitor(file.device, file.inode, names_left);
    }
}

void LinkSet::remember(u64 device, u64 inode, u32 names_left) {
    const File file{device, inode};
    shards_[FileHash()(file) >> 58].names_left[file] = names_left;
}

}  // namespace warren::walk
