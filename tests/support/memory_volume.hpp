// SPDX-License-Identifier: Apache-2.0
// A volume on a disk in memory that a test can close, open again, check, cut and let fail.
//
// Invariant: the disk outlives every Volume that is opened on it here.
#pragma once

#include <memory>
#include <string>

#include "tests/support/fault_disk.hpp"
#include "tests/support/memory_disk.hpp"
#include "warren/volume.hpp"

namespace warren {

/// The smallest meta buffer that a volume opens with.
inline constexpr u64 small_meta_buffer = 1 * mib;

/// Both ways in which metadata blocks are kept in memory, for tests that run each.
inline constexpr u64 block_maps[] = {0, small_meta_buffer};

/// A new volume with this many bytes, not open.
std::unique_ptr<MemoryDisk> make_memory_disk(u64 size_bytes);

/// Opens the volume on `disk`, which outlives it. Null, and a failed test, if that is not possible.
/// With a `hash_mask`, names have only those bits of their hash.
std::unique_ptr<Volume> open_on(Disk& disk, const OpenOptions& options = {},
                                u64 hash_mask = ~u64{0});

/// Fails the test unless the check finds nothing wrong. True if all is well.
bool expect_clean(Disk& disk, u64 hash_mask = ~u64{0});

/// A disk, the means to let it fail, and the volume that is open on both.
class MemoryVolume {
 public:
    /// With a `hash_mask`, names have only those bits of their hash, so that many collide.
    explicit MemoryVolume(u64 size_bytes, const OpenOptions& options = {}, u64 hash_mask = ~u64{0});
    explicit MemoryVolume(std::unique_ptr<MemoryDisk> disk, const OpenOptions& options = {},
                          u64 hash_mask = ~u64{0});

    MemoryDisk& disk() { return *disk_; }
    FaultDisk& faults() { return faults_; }
    Volume& operator*() { return *volume_; }
    Volume* operator->() { return volume_.get(); }
    bool is_open() const { return volume_ != nullptr; }

    void open();
    /// Closes the volume, which must succeed.
    void close();
    /// Closes it; then the check must find nothing wrong.
    void close_and_check();

 private:
    std::unique_ptr<MemoryDisk> disk_;
    FaultDisk faults_;
    const OpenOptions options_;
    const u64 hash_mask_;
    std::unique_ptr<Volume> volume_;
};

}  // namespace warren
