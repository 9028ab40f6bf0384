// SPDX-License-Identifier: Apache-2.0
// A predicate on bytes that deduplication asks, within a volume and beside one.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

namespace warren {

/// Whether all of the bytes are zero; true if there are none.
inline bool is_all_zero(std::span<const std::byte> bytes) {
    // Equal neighbours throughout, and the first one is zero.
    return bytes.empty() || (bytes[0] == std::byte{0} &&
                             std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

}  // namespace warren
