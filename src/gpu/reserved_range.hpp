// SPDX-License-Identifier: Apache-2.0
// A range of device addresses as large as a volume, of which only the mapped parts have memory: a
// block keeps its address for as long as the volume is open.
//
// Invariant: a part once mapped stays mapped; reading outside of the mapped parts is a fault.
#pragma once

#include <cstddef>
#include <vector>

#include "warren/result.hpp"
#include "warren/types.hpp"

namespace warren::gpu {

class ReservedRange {
 public:
    /// Memory comes in multiples of this.
    static constexpr u64 granularity = 2 * mib;

    ReservedRange() = default;
    ~ReservedRange();
    ReservedRange(const ReservedRange&) = delete;
    ReservedRange& operator=(const ReservedRange&) = delete;

    /// Takes addresses for `bytes` on the calling thread's GPU. Errc::not_supported without virtual
    /// memory management.
    Errc reserve(u64 bytes);
    /// Gives memory to [offset, offset + bytes), both multiples of the granularity and not mapped
    /// before: one piece of memory, made accessible at once. Its contents are undefined.
    /// Errc::no_memory if the device has no more.
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
