// SPDX-License-Identifier: Apache-2.0
// Opens a volume for a test that accesses the internals of a Volume: its Store and its operations.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "fs/commit/superblock_io.hpp"
#include "fs/volume/volume_implementation.hpp"
#include "tests/support/fault_disk.hpp"

namespace warren {

/// The volume on `disk`, which must outlive it, with the CPU engine. See open_on() for `hash_mask`.
inline std::unique_ptr<VolumeImplementation> open_inside(Disk& disk,
                                                         OpenOptions options = {.workers = 1},
                                                         u64 hash_mask = ~u64{0}) {
    const bool has_gpu = options.device_memory_bytes != 0;  // beside the CPU engine
    options.engine = has_gpu ? EngineChoice::automatic : EngineChoice::cpu;
    format::Superblock superblock;
    EXPECT_EQ(read_superblock(disk, "image", superblock).code, Errc::ok);
    auto volume = std::make_unique<VolumeImplementation>(std::make_unique<FaultDisk>(disk),
                                                         superblock, options);
    EXPECT_EQ(volume->start(hash_mask), Errc::ok);
    return volume;
}

}  // namespace warren
