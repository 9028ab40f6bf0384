// SPDX-License-Identifier: Apache-2.0
// Which bytes a scan may copy. Almost all runs lie within the data and are copied 16 bytes at a
// time without checks. The runs at both ends check how many of each 16 bytes exist, and read a
// partial group byte by byte.
//
// Invariant: no byte is read outside of the data and the 64 bytes before them that count. The code
// is not only for the device, so that a test can check this on a host without a GPU.
#pragma once

#include "warren/types.hpp"

namespace warren::chunk::cuda {

inline constexpr u32 stage_bytes = 64;
inline constexpr u32 quad_bytes = 16;

/// 16 bytes as little-endian words.
struct Quad {
    u32 words[4];
};

/// The data to be scanned: `count` bytes and, if `has_history`, the 64 bytes before them.
struct DataExtent {
    u64 count;
    bool has_history;

    /// Whether all of [begin, end) exists, and the stage before it.
    WARREN_HD constexpr bool has_all(i64 begin, i64 end) const {
        return (begin >= stage_bytes || has_history) && end <= static_cast<i64>(count);
    }
    /// How many of the 16 bytes from `at`, a multiple of 16, exist.
    WARREN_HD constexpr u32 bytes_at(i64 at) const {
        if (at < 0) return has_history ? quad_bytes : 0;
        const i64 left = static_cast<i64>(count) - at;
        if (left >= quad_bytes) return quad_bytes;
        return left > 0 ? static_cast<u32>(left) : 0;
    }
};

/// The first `bytes` of 16, followed by zeros.
WARREN_HD constexpr Quad read_part(const u8* at, u32 bytes) {
    Quad quad{};
    for (u32 byte = 0; byte < quad_bytes; ++byte) {
        if (byte < bytes) quad.words[byte / 4] |= static_cast<u32>(at[byte]) << (byte % 4 * 8);
    }
    return quad;
}

}  // namespace warren::chunk::cuda
