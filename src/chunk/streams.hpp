// SPDX-License-Identifier: Apache-2.0
// A rolling hash is latency-bound: each step needs the previous result. A core can execute more at
// once, so one scan processes several parts of its input in parallel.
#pragma once

#include <bit>

#include "warren/types.hpp"

namespace warren::chunk {

inline void set_bit(u64* bits, u64 index) {
    bits[index / 64] |= u64{1} << (index % 64);
}

/// Calls `visit(hash, index)` with the hash of every window that ends after bytes[0] to bytes[count
/// - 1], for `streams` parts of the input in turn, as many as registers hold. Hash has begin(at),
/// the hash of the window that ends before `at`, and roll(hash, at), the next hash given the byte
/// at `at`.
template <u32 streams, class Hash, class Visit>
void for_each_window(const Hash& rolling, const u8* bytes, u64 count, const Visit& visit) {
    // Parts that begin at multiples of 64 share no word of a bitmap.
    const u64 part = count / streams / 64 * 64;
    if (part > 0) {
        decltype(rolling.begin(bytes)) hashes[streams];
        for (u32 stream = 0; stream < streams; ++stream)
            hashes[stream] = rolling.begin(bytes + stream * part);
        for (u64 index = 0; index < part; ++index) {
#pragma GCC unroll 4
            for (u32 stream = 0; stream < streams; ++stream) {
                const u64 place = stream * part + index;
                hashes[stream] = rolling.roll(hashes[stream], bytes + place);
                visit(hashes[stream], place);
            }
        }
    }
    auto hash = rolling.begin(bytes + streams * part);
    for (u64 index = streams * part; index < count; ++index) {
        hash = rolling.roll(hash, bytes + index);
        visit(hash, index);
    }
}

}  // namespace warren::chunk
