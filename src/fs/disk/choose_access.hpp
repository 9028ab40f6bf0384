// SPDX-License-Identifier: Apache-2.0
// Which access method is fastest depends on the device, the host's file system and the kernel. So
// it is measured on the file itself when a volume is opened, which takes tens of milliseconds.
//
// Invariant: a measurement leaves the contents of the file as they were: it writes blocks back that
// it has read.
#pragma once

#include <array>
#include <string>

#include "fs/disk/file_disk.hpp"

namespace warren {

/// How a volume will write. `none`: not at all. `many`: a buffer collects writes, so many blocks
/// are written at once. `single`: also block by block as callers write.
enum class WriteHabit : u8 { none, many, single };

/// The measurement of one access method.
struct AccessMeasure {
    DiskAccess access = DiskAccess::plain;
    std::string refusal = {};  // why it cannot be used; empty if it can
    u64 read_ns = 0;           // to read 32 scattered blocks that are not in the page cache
    u64 durable_ns = 0;        // to write them at once and flush
    u64 write_ns = 0;          // to write them one after the other, without a flush

    u64 total_ns() const { return read_ns + durable_ns + write_ns; }
};

struct AccessChoice {
    DiskAccess access = DiskAccess::plain;
    std::array<AccessMeasure, 3> measures{
        {{DiskAccess::plain}, {DiskAccess::ring}, {DiskAccess::direct}}};
    bool is_measured = false;

    /// One line for users: the access chosen, and the times of all.
    std::string text() const;
};

/// The fastest access; plain access unless another is faster by a tenth. Requires: the first
/// measure is of plain access.
DiskAccess fastest_of(const std::array<AccessMeasure, 3>& measures);

/// Measures all access methods with blocks of the range and sets `disk` to the fastest. Measures
/// nothing if the file is in memory or the range has less than 64 blocks. Requires: exclusive use
/// of the disk.
AccessChoice choose_access(FileDisk& disk, WriteHabit habit, u64 offset, u64 length_bytes);

}  // namespace warren
