// SPDX-License-Identifier: Apache-2.0
// A rolling hash waits for itself: the next step needs the result of the last. A core has room for
// more, so one scan runs through several parts of its input side by side.
#pragma once

#include <bit>

#include "warren/types.hpp"

namespace warren::chunk {

inline void set_bit(u64* bits, u64 index) {
    bits[index / 64] |= u64{1} << (index % 64);
}

/// Calls `visit(hash, index)` with the hash of every window that ends behind bytes[0] to
/// bytes[count - 1], four parts of the input in turn. Hash has begin(at): the hash of the window
/// that ends before `at`, and roll(hash, at): the next one, by the byte at `at`.
template <class Hash, class Visit>
void for_each_window(const Hash& rolling, const u8* bytes, u64 count, const Visit& visit) {
    // Parts that begin at a multiple of 64 share no word of a bitmap.
    const u64 part = count / 4 / 64 * 64;
    if (part > 0) {
        const u8* const at0 = bytes;
        const u8* const at1 = bytes + part;
        const u8* const at2 = bytes + 2 * part;
        const u8* const at3 = bytes + 3 * part;
        auto hash0 = rolling.begin(at0);
        auto hash1 = rolling.begin(at1);
        auto hash2 = rolling.begin(at2);
        auto hash3 = rolling.begin(at3);
        for (u64 index = 0; index < part; ++index) {
            hash0 = rolling.roll(hash0, at0 + index);
            hash1 = rolling.roll(hash1, at1 + index);
            hash2 = rolling.roll(hash2, at2 + index);
            hash3 = rolling.roll(hash3, at3 + index);
            visit(hash0, index);
            visit(hash1, part + index);
            visit(hash2, 2 * part + index);
            visit(hash3, 3 * part + index);
        }
    }
    auto hash = rolling.begin(bytes + 4 * part);
    for (u64 index = 4 * part; index < count; ++index) {
        hash = rolling.roll(hash, bytes + index);
        visit(hash, index);
    }
}

}  // namespace warren::chunk
