// SPDX-License-Identifier: Apache-2.0
// The one seam to storage, and the only virtual interface of the file system: each call is an I/O,
// so a virtual call costs nothing in comparison. Implementations: a file, a block device, memory
// that records writes and flushes, and a disk that fails on purpose.
//
// Invariant: what write() was given is durable after a later flush() that answered ok; before it,
// any subset of the 512-byte sectors written since the last flush may have reached the medium.
#pragma once

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

    /// When it was opened or last resized.
    virtual u64 size_bytes() const = 0;
    /// Now: less than size_bytes() if it was truncated by another program. Called when something
    /// fails.
    virtual Result<u64> present_size() const { return size_bytes(); }
    /// Fills `target` from `offset`. Errc::io if any byte lies outside or cannot be read.
    virtual Errc read(u64 offset, std::span<std::byte> target) = 0;
    /// Errc::io, Errc::no_space or Errc::read_only; then any part may have been written. Requires:
    /// no other writer uses the same 4 KiB blocks meanwhile.
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
    /// Makes all earlier writes durable. Errc::io also if the disk was truncated meanwhile.
    virtual Errc flush() = 0;
    /// Tells the medium that the range holds nothing; it reads as zeros or as before. A hint.
    virtual Errc discard(u64 offset, u64 length_bytes) = 0;
};

}  // namespace warren
