// SPDX-License-Identifier: Apache-2.0
// Written bytes are copied to mappings from the caller's memory. After any other change the range
// is read from the file again, which is always correct.
#include "fs/volume/mapped_files.hpp"

#include <algorithm>
#include <cstring>

#include "fs/volume/volume_implementation.hpp"

namespace warren {

MappedFiles::MappedFiles(VolumeImplementation& volume)
    : volume_(volume), home_(std::make_shared<MappingHome>()) {
    home_->volume = &volume;
}

void MappedFiles::leave() {
    const std::lock_guard lock(home_->mutex);
    home_->volume = nullptr;
}

std::vector<FileMapping*> MappedFiles::mappings_of(u64 inode) const {
    std::vector<FileMapping*> found;
    if (count_.load(std::memory_order_relaxed) == 0) return found;
    const std::lock_guard lock(mutex_);
    const auto [begin, end] = mappings_.equal_range(inode);
    for (auto one = begin; one != end; ++one)
        found.push_back(one->second);
    return found;
}

void MappedFiles::add(FileMapping& mapping) {
    const std::lock_guard lock(mutex_);
    mappings_.emplace(mapping.file.inode, &mapping);
    count_.fetch_add(1, std::memory_order_relaxed);
}

void MappedFiles::remove(FileMapping& mapping) {
    const std::lock_guard lock(mutex_);
    const auto [begin, end] = mappings_.equal_range(mapping.file.inode);
    mappings_.erase(std::find_if(begin, end, [&](auto& one) { return one.second == &mapping; }));
    count_.fetch_sub(1, std::memory_order_relaxed);
}

Errc MappedFiles::show(Handle file, u64 offset, std::span<const std::byte> bytes,
                       const FileMapping* except) const {
    for (FileMapping* mapping : mappings_of(file.inode)) {
        const u64 begin = std::max(offset, mapping->view.offset);
        const u64 end = std::min(offset + bytes.size(), mapping->end());
        if (mapping == except || begin >= end) continue;
        WARREN_TRY(mapping->memory->put(
            begin - mapping->view.offset, end - begin, [&](u64 at, std::span<std::byte> piece) {
                std::memcpy(piece.data(), bytes.data() + (begin - offset) + at, piece.size());
                return Errc::ok;
            }));
    }
    return Errc::ok;
}

Errc MappedFiles::reload(Handle file, u64 begin, u64 end, const FileMapping* except) const {
    for (FileMapping* mapping : mappings_of(file.inode)) {
        const u64 first = std::max(begin, mapping->view.offset);
        const u64 last = std::min(end, mapping->end());
        if (mapping == except || first >= last) continue;
        const u64 at = first - mapping->view.offset;
        const Errc loaded = volume_.load_mapping(*mapping, at, last - first);
        if (loaded == Errc::ok) continue;
        WARREN_TRY(mapping->memory->clear(at, last - first));
    }
    return Errc::ok;
}

}  // namespace warren
