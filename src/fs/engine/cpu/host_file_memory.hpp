// SPDX-License-Identifier: Apache-2.0
// File contents in host memory, for the CPU engine: bytes are read from the disk directly into the
// memory that programs access.
//
// Invariant: the memory is anonymous, so no program can change the image through it.
#pragma once

#include <cstring>

#include "base/reserved_range.hpp"
#include "fs/engine/file_memory.hpp"

namespace warren {

class HostFileMemory final : public FileMemory {
 public:
    /// On failure data() is null.
    explicit HostFileMemory(u64 bytes) : range_(bytes), bytes_(bytes) {}

    std::byte* data() const override { return range_.data(); }
    u64 bytes() const override { return bytes_; }
    bool is_on_device() const override { return false; }

    Errc put(u64 offset, u64 length, const Source& source) override {
        return source(0, {data() + offset, length});
    }
    Errc get(u64 offset, u64 length, const Sink& sink) const override {
        return sink(0, {data() + offset, length});
    }
    Errc clear(u64 offset, u64 length) override {
        std::memset(data() + offset, 0, length);
        return Errc::ok;
    }

 private:
    ReservedRange range_;
    u64 bytes_;
};

}  // namespace warren
