// SPDX-License-Identifier: Apache-2.0
// The data locks of several files at the same time.
#pragma once

#include <bitset>
#include <shared_mutex>
#include <vector>

#include "fs/volume/volume_implementation.hpp"

namespace warren {

/// A thread may hold this many even under the thread sanitizer, which tracks 64 locks a thread.
inline constexpr u64 few_data_locks = 32;

/// Takes the data locks of files, each once, in the order of their numbers, which prevents
/// deadlock. For as many files as there are locks it takes all of them: looking at a million files
/// takes longer. `Lock`: std::shared_lock or std::unique_lock. Throws std::bad_alloc.
template <template <class> class Lock, class Files, class InodeOf>
std::vector<Lock<std::shared_mutex>> lock_data(VolumeImplementation& volume, const Files& files,
                                               const InodeOf& inode_of) {
    std::bitset<VolumeImplementation::data_lock_count> wanted;
    if (files.size() >= wanted.size()) {
        wanted.set();
    } else {
        for (const auto& file : files)
            wanted.set(inode_of(file) % wanted.size());
    }
    std::vector<Lock<std::shared_mutex>> locks;
    locks.reserve(wanted.count());
    for (u64 i = 0; i < wanted.size(); ++i) {
        if (wanted.test(i)) locks.emplace_back(volume.data_lock(i));
    }
    return locks;
}

}  // namespace warren
