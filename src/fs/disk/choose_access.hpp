// SPDX-License-Identifier: Apache-2.0
// Which access method is fastest depends on the device, the file system of the host and the kernel:
// so it is measured, on the file itself and within milliseconds, when a volume is opened.
//
// Invariant: a measurement writes only the bytes that were there before.
#pragma once

#include <array>
#include <string>

#include "fs/disk/file_disk.hpp"

namespace warren {

/// How a volume will write. `many`: a buffer collects what is written, so that many blocks are
/// written at once. `single`: also block by block as callers write.
enum class WriteHabit : u8 { none, many, single };

/// The measurement of one access method.
struct AccessMeasure {
    DiskAccess access = DiskAccess::plain;
    std::string refusal;  // why it cannot be used; empty: it can
    u64 read_ns = 0;      // blocks that the system does not hold in memory
    u64 durable_ns = 0;   // as many scattered blocks written, and a flush
    u64 write_ns = 0;     // as many writes of one block, one after the other, without a flush

    u64 total_ns() const { return read_ns + durable_ns + write_ns; }
};

struct AccessChoice {
    DiskAccess access = DiskAccess::plain;
    std::array<AccessMeasure, 3> measures;
    bool is_measured = false;

    /// One line for people: the chosen access, and the figures of all.
    std::string text() const;
};

/// The fastest access: the plain one unless another is faster by a tenth. Requires: the first
/// measure is of plain access.
DiskAccess fastest_of(const std::array<AccessMeasure, 3>& measures);

/// Measures all access methods with the blocks of the range, at least 64 of them, and sets `disk`
/// to the fastest. Requires: exclusive use of the disk.
AccessChoice choose_access(FileDisk& disk, WriteHabit habit, u64 offset, u64 length_bytes);

}  // namespace warren
