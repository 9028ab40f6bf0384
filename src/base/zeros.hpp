// SPDX-License-Identifier: Apache-2.0
// A test for zero bytes.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

namespace warren {

/// Whether all of the bytes are zero; true if there are none.
inline bool is_all_zero(std::span<const std::byte> bytes) {
    // All neighbours are equal, and the first byte is zero.
    return bytes.empty() || (bytes[0] == std::byte{0} &&
                             std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace warren
