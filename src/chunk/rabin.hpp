// SPDX-License-Identifier: Apache-2.0
// Rabin's fingerprint: the bytes of a window as a polynomial over GF(2), the first byte at the
// highest power, modulo a fixed polynomial ("Fingerprinting by random polynomials", 1981). It
// rolls: two lookups account for the byte that enters and the byte that leaves.
//
// Invariant: a fingerprint is smaller than x^degree, and bytes before the stream are zero.
#pragma once

#include <array>
#include <bit>

#include "warren/types.hpp"

namespace warren::chunk {

/// The degree of a polynomial. Requires: it is not zero.
constexpr u32 degree(u64 polynomial) {
    return 63 - static_cast<u32>(std::countl_zero(polynomial));
}

/// factor * x^8 modulo the polynomial, which has degree 9 to 63.
constexpr u64 times_x8(u64 factor, u64 polynomial) {
    const u64 top = u64{1} << (degree(polynomial) - 1);
    for (int bit = 0; bit < 8; ++bit) {
        const bool carries = (factor & top) != 0;
        factor = (factor << 1) ^ (carries ? polynomial : 0);
    }
    return factor;
}

struct RabinTables {
    std::array<u64, 256> append;  // index: the top 8 bits, which leave when a byte enters
    std::array<u64, 256> remove;  // index: the byte that leaves the window
    u32 shift;                    // position of the top 8 bits

    u64 roll(u64 fingerprint, u8 in, u8 out) const {
        return ((fingerprint << 8) | in) ^ append[fingerprint >> shift] ^ remove[out];
    }
};

/// Requires: degree 9 to 63, a window of at least one byte.
RabinTables make_rabin_tables(u64 polynomial, u32 window_bytes);

}  // namespace warren::chunk
