// SPDX-License-Identifier: Apache-2.0
// CRC32C computed by many lanes: each lane processes a part of the bytes, and the CRC of the whole
// follows from the CRCs of the parts, because appending zeros multiplies by a power of x
// (polynomials over GF(2), as in zlib's crc32_combine). For devices without a CRC instruction; the
// host's crc32c() is the reference.
//
// A state is a CRC without the inversions at start and end, so states combine by XOR.
#pragma once

#include <array>

#include "base/host_device.hpp"
#include "warren/types.hpp"

namespace warren::crc_parts {

inline constexpr u32 polynomial = 0x82f63b78;

/// The change of the state for each value of a byte.
constexpr std::array<u32, 256> make_table() {
    std::array<u32, 256> table{};
    for (u32 i = 0; i < 256; ++i) {
        u32 crc = i;
        for (int bit = 0; bit < 8; ++bit)
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? polynomial : 0u);
        table[i] = crc;
    }
    return table;
}

/// The product of two polynomials modulo the CRC's polynomial; the highest bit is the coefficient
/// of x^0.
WARREN_HD constexpr u32 multiply(u32 a, u32 b) {
    u32 product = 0;
    for (u32 bit = 0x80000000u; bit != 0; bit >>= 1) {
        if ((a & bit) != 0) product ^= b;
        b = (b >> 1) ^ ((b & 1) != 0 ? polynomial : 0u);
    }
    return product;
}

/// The factor by which appending `bytes` zeros multiplies a state.
constexpr u32 shift_of(u32 bytes) {
    u32 power = 0x80000000u;        // x^0
    u32 square = 0x80000000u >> 8;  // x^8
    for (; bytes != 0; bytes >>= 1) {
        if ((bytes & 1) != 0) power = multiply(power, square);
        square = multiply(square, square);
    }
    return power;
}

/// The state after the eight bytes of `word`, the lowest byte first.
WARREN_HD inline u32 take_word(const u32* table, u32 state, u64 word) {
    for (u32 i = 0; i < 8; ++i) {
        state = (state >> 8) ^ table[(state ^ static_cast<u32>(word)) & 0xff];
        word >>= 8;
    }
    return state;
}

}  // namespace warren::crc_parts
