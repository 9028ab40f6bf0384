// SPDX-License-Identifier: Apache-2.0
// Memory of an engine with the contents of a mapped file. Programs access it by address; the host
// fills and reads it segment by segment.
//
// Invariant: put(), get() and clear() are complete when they return, so a kernel launched
// afterwards sees their effect. Ranges of concurrent calls do not overlap.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "warren/result.hpp"
#include "warren/types.hpp"

namespace warren {

class FileMemory {
 public:
    /// Fills `piece`, the segment that begins `at` bytes after the start of the call's range.
    using Source = std::function<Errc(u64 at, std::span<std::byte> piece)>;
    /// Reads such a segment.
    using Sink = std::function<Errc(u64 at, std::span<const std::byte> piece)>;

    virtual ~FileMemory() = default;

    virtual std::byte* data() const = 0;
    virtual u64 bytes() const = 0;
    virtual bool is_on_device() const = 0;

    /// Fills [offset, offset + length) by calls of `source`. Stops at the first error.
    virtual Errc put(u64 offset, u64 length, const Source& source) = 0;
    /// Passes [offset, offset + length) to `sink`. Stops at the first error.
    virtual Errc get(u64 offset, u64 length, const Sink& sink) const = 0;
    /// Sets [offset, offset + length) to zeros.
    virtual Errc clear(u64 offset, u64 length) = 0;
};

}  // namespace warren
