// SPDX-License-Identifier: Apache-2.0
// The interface to storage. All other parts of the file system reach storage through it. It is
// virtual: each call is an I/O, so the cost of a virtual call does not matter. Implementations: an
// image file or block device, and in tests memory that records writes and flushes, and disks that
// fail on purpose.
//
// Invariant: bytes given to write() are durable after a later flush() that returned ok. Until then
// any subset of the 512-byte sectors written since the last flush may have reached the medium.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "warren/result.hpp"
#include "warren/types.hpp"

namespace warren {

/// One of the ranges of read_many() or write_many().
struct DiskRead {
    u64 offset;
    std::span<std::byte> target;
};
struct DiskWrite {
    u64 offset;
    std::span<const std::byte> source;
};

class Disk {
 public:
    virtual ~Disk() = default;

    /// The size when the disk was opened or last resized.
    virtual u64 size_bytes() const = 0;
    /// The size at the time of the call: less than size_bytes() if another program has truncated
    /// the disk.
    virtual Result<u64> present_size() const { return size_bytes(); }
    /// Fills `target` from `offset`. Errc::io if any byte lies outside or cannot be read.
    virtual Errc read(u64 offset, std::span<std::byte> target) = 0;
    /// Writes `source` at `offset`. On Errc::io, Errc::no_space or Errc::read_only any part of it
    /// may have been written. Requires: no concurrent writer of the same 4 KiB blocks.
    virtual Errc write(u64 offset, std::span<const std::byte> source) = 0;
    /// read() of each range, in parallel where the disk can; returns the first error.
    virtual Errc read_many(std::span<const DiskRead> reads) {
        for (const DiskRead& one : reads)
            WARREN_TRY(read(one.offset, one.target));
        return Errc::ok;
    }
    /// write() of each range, in parallel where the disk can; returns the first error. Requires: no
    /// two of them share a 4 KiB block.
    virtual Errc write_many(std::span<const DiskWrite> writes) {
        for (const DiskWrite& one : writes)
            WARREN_TRY(write(one.offset, one.source));
        return Errc::ok;
    }
    /// Makes all earlier writes durable. Errc::io also if another program has truncated the disk.
    virtual Errc flush() = 0;
    /// Tells the medium that the contents of the range are no longer needed (TRIM). A hint: the
    /// range reads as zeros or as before.
    virtual Errc discard(u64 offset, u64 length_bytes) = 0;
    /// Makes the range read as zeros; as write() of zeros, which it is where the disk knows no
    /// other way.
    virtual Errc zero(u64 offset, u64 length_bytes) {
        static constexpr std::byte zeros[256 * kib] = {};
        for (const u64 end = offset + length_bytes; offset < end;) {
            const u64 piece = std::min<u64>(end - offset, sizeof zeros);
            WARREN_TRY(write(offset, std::span(zeros, piece)));
            offset += piece;
        }
        return Errc::ok;
    }
};

}  // namespace warren
