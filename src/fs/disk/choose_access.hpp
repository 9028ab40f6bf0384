// SPDX-License-Identifier: Apache-2.0
// Which way to a disk is fastest depends on the device, the file system of the host and the kernel:
// so it is measured, on the file itself and within milliseconds, when a volume is opened.
//
// Invariant: what is written in a measurement are the bytes that were there before.
#pragma once

#include <array>
#include <string>

#include "fs/disk/file_disk.hpp"

namespace warren {

/// How a volume will write. `many`: memory of its own gathers what is written, so that it comes
/// many blocks at once. `single`: also block by block as callers write.
enum class WriteHabit : u8 { none, many, single };

/// What one way has shown.
struct AccessMeasure {
    DiskAccess access = DiskAccess::plain;
    std::string refusal;  // why it cannot be gone; empty: it can
    u64 read_ns = 0;      // blocks that the system does not hold in memory
    u64 durable_ns = 0;   // as many scattered blocks written, and a flush
    u64 write_ns = 0;     // as many writes of one block, one after the other, without a flush

    u64 total_ns() const { return read_ns + durable_ns + write_ns; }
};

struct AccessChoice {
    DiskAccess access = DiskAccess::plain;
    std::array<AccessMeasure, 3> measures;
    bool is_measured = false;

    /// One line for people: the way, and the figures of all.
    std::string text() const;
};

/// The way that the figures speak for: the plain one unless another is faster by a tenth. Requires:
/// the first is that of the plain way.
DiskAccess fastest_of(const std::array<AccessMeasure, 3>& measures);

/// Measures all ways with the blocks of the range, at least 64 of them, and lets `disk` go the
/// fastest. Requires: nobody else uses the disk.
AccessChoice choose_access(FileDisk& disk, WriteHabit habit, u64 offset, u64 length_bytes);

}  // namespace warren
