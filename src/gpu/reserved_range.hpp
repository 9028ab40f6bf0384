// SPDX-License-Identifier: Apache-2.0
// A range of device addresses as large as a volume, of which only the mapped parts have memory. So
// a block keeps its address for as long as the volume is open.
//
// Invariant: a part once mapped stays mapped. An access outside of the mapped parts is a fault.
#pragma once

#include <cstddef>
#include <vector>

#include "warren/result.hpp"
#include "warren/types.hpp"

namespace warren::gpu {

class ReservedRange {
 public:
    /// Memory is mapped in multiples of this.
    static constexpr u64 granularity = 2 * mib;

    ReservedRange() = default;
    /// Waits for all kernels, because any of them may use the memory. Requires: the calling thread
    /// uses the range's GPU.
    ~ReservedRange();
    ReservedRange(const ReservedRange&) = delete;
    ReservedRange& operator=(const ReservedRange&) = delete;

    /// Reserves `bytes` of addresses on the calling thread's GPU. Errc::not_supported: the driver
    /// has no virtual memory management.
    Errc reserve(u64 bytes);
    /// Maps memory to [offset, offset + bytes), both multiples of the granularity and not mapped
    /// before, in one allocation that is accessible at return. Its contents are undefined.
    /// Errc::no_memory: the device has no memory left.
    Errc map(u64 offset, u64 bytes);

    std::byte* data() const { return reinterpret_cast<std::byte*>(address_); }
    u64 bytes() const { return bytes_; }
    u64 mapped_bytes() const { return mapped_bytes_; }

 private:
    struct Piece {
        u64 offset;
        u64 bytes;
        unsigned long long memory;
    };

    Errc map_piece(Piece& piece);

    u64 address_ = 0;
    u64 bytes_ = 0;
    u64 mapped_bytes_ = 0;
    int device_ = 0;
    std::vector<Piece> pieces_;
};

}  // namespace warren::gpu
