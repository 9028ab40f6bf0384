// SPDX-License-Identifier: Apache-2.0
// A volume on a disk in memory that a test can close, reopen, check, cut and let fail.
//
// Invariant: the disk outlives every Volume opened on it here.
#pragma once

#include <memory>
#include <string>

#include "tests/support/fault_disk.hpp"
#include "tests/support/memory_disk.hpp"
#include "warren/volume.hpp"

namespace warren {

/// The smallest meta buffer with which a volume opens.
inline constexpr u64 small_meta_buffer = 1 * mib;

/// Both ways of keeping metadata blocks in memory, for tests that run each.
inline constexpr u64 block_maps[] = {0, small_meta_buffer};

/// A new volume of this size, not open.
std::unique_ptr<MemoryDisk> make_memory_disk(u64 size_bytes);

/// Opens the volume on `disk`, which must outlive it. Null, after failing the test, on failure.
/// With a `hash_mask`, the hashes of names keep only those bits.
std::unique_ptr<Volume> open_on(Disk& disk, const OpenOptions& options = {},
                                u64 hash_mask = ~u64{0});

/// Fails the test unless the check finds no problem. Returns true if it finds none.
bool expect_clean(Disk& disk, u64 hash_mask = ~u64{0});

/// A disk, fault injection for it, and the volume opened on both.
class MemoryVolume {
 public:
    /// With a `hash_mask`, the hashes of names keep only those bits, so that many collide.
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
    /// Closes it; then the check must find no problem.
    void close_and_check();

 private:
    std::unique_ptr<MemoryDisk> disk_;
    FaultDisk faults_;
    const OpenOptions options_;
    const u64 hash_mask_;
    std::unique_ptr<Volume> volume_;
};

}  // namespace warren
