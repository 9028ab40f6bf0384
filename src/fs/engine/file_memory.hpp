// SPDX-License-Identifier: Apache-2.0
// Memory of an engine that holds a file's contents: what a program may reach by address, and the
// host fills and empties piece by piece.
//
// Invariant: put(), get() and clear() have ended when they return, so what is launched behind them
// sees what they did. Ranges of calls that run at once do not overlap.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "warren/result.hpp"
#include "warren/types.hpp"

namespace warren {

class FileMemory {
 public:
    /// Fills `piece` with the bytes that belong `at` bytes behind the start of the call's range.
    using Source = std::function<Errc(u64 at, std::span<std::byte> piece)>;
    /// Takes them.
    using Sink = std::function<Errc(u64 at, std::span<const std::byte> piece)>;

    virtual ~FileMemory() = default;

    virtual std::byte* data() const = 0;
    virtual u64 bytes() const = 0;
    virtual bool is_on_device() const = 0;

    /// Lets `source` fill [offset, offset + length). The first error ends it.
    virtual Errc put(u64 offset, u64 length, const Source& source) = 0;
    /// Shows [offset, offset + length) to `sink`.
    virtual Errc get(u64 offset, u64 length, const Sink& sink) const = 0;
    /// Makes [offset, offset + length) zeros.
    virtual Errc clear(u64 offset, u64 length) = 0;
};

}  // namespace warren
