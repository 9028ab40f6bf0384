// SPDX-License-Identifier: Apache-2.0
// Volumes in memory to measure an engine on, and the trees that they are filled with: no disk and
// no kernel stand between the program and what it measures.
//
// Invariant: the tree of a call is the same in every volume and for every run.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "fs/volume/volume_implementation.hpp"
#include "tests/support/memory_disk.hpp"
#include "warren/volume.hpp"

namespace warren::bench {

inline constexpr u32 directory_mode = 040755;
inline constexpr u32 file_mode = 0100644;

/// A new volume, open for the CPU engine.
class MemoryVolume {
 public:
    explicit MemoryVolume(u64 size_bytes, u64 device_memory_bytes = 0);

    Volume& operator*() const { return *volume_; }
    Volume* operator->() const { return volume_.get(); }
    VolumeImplementation& inside() const { return *inside_; }
    const core::Store& store() const { return inside_->store(); }

 private:
    MemoryDisk disk_;
    VolumeImplementation* inside_ = nullptr;
    std::unique_ptr<Volume> volume_;
};

/// Calls work(worker, workers) on a thread for each processor.
void by_all_cores(const std::function<void(u32, u32)>& work);

/// Makes (in, name); `mode` says what.
Handle add_entry(Volume& volume, Handle in, const std::string& name, u32 mode);

/// `levels` - 1 directories in each other, below `root`; the last one.
Handle build_deep(Volume& volume, Handle root, u32 levels);

/// Directories with entries, made by all cores.
void build_flat(Volume& volume, Handle root, u32 parents, u32 entries, u32 mode);

}  // namespace warren::bench
