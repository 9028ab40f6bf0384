// SPDX-License-Identifier: Apache-2.0
// The one seam to storage, and the only virtual interface of the file system: a call costs an I/O,
// so a pointer more does not show. A file, a block device, memory that records what was written and
// when it was flushed, and a disk that fails on purpose all look the same from above.
//
// Invariant: what write() was given is durable after a later flush() that answered ok; before it,
// any subset of the 512-byte sectors written since the last flush may have reached the medium.
#pragma once

#include <cstddef>
#include <span>

#include "warren/result.hpp"
#include "warren/types.hpp"

namespace warren {

class Disk {
 public:
    virtual ~Disk() = default;

    virtual u64 size_bytes() const = 0;
    /// Fills `target` from `offset`. Errc::io if any byte lies outside or cannot be read.
    virtual Errc read(u64 offset, std::span<std::byte> target) = 0;
    /// Errc::io, Errc::no_space or Errc::read_only; then any part may have been written.
    virtual Errc write(u64 offset, std::span<const std::byte> source) = 0;
    /// Makes all earlier writes durable.
    virtual Errc flush() = 0;
    /// Tells the medium that the range holds nothing; it reads as zeros or as before. A hint.
    virtual Errc discard(u64 offset, u64 length_bytes) = 0;
};

}  // namespace warren
