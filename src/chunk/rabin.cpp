// SPDX-License-Identifier: Apache-2.0
// The tables of the rolling fingerprint. Both are linear: entries of single bits are computed, the
// others are sums of these.
#include "chunk/rabin.hpp"

namespace warren::chunk {

namespace {

/// Completes a table from its entries at powers of two.
void complete(std::array<u64, 256>& table) {
    table[0] = 0;
    for (u32 index = 1; index < 256; ++index) {
        const u32 lowest = index & (~index + 1);
        if (lowest != index) table[index] = table[lowest] ^ table[index ^ lowest];
    }
}

}  // namespace

RabinTables make_rabin_tables(u64 polynomial, u32 window_bytes) {
    RabinTables tables{};
    const u32 degree_bits = degree(polynomial);
    tables.shift = degree_bits - 8;
    for (u32 bit = 0; bit < 8; ++bit) {
        const u64 leaving = u64{1} << (degree_bits - 8 + bit);
        // The bits that leave at the top are cancelled when their remainder is added.
        tables.append[1u << bit] = times_x8(leaving, polynomial) ^ (leaving << 8);
        u64 factor = u64{1} << bit;
        for (u32 byte = 0; byte < window_bytes; ++byte)
            factor = times_x8(factor, polynomial);
        tables.remove[1u << bit] = factor;
    }
    complete(tables.append);
    complete(tables.remove);
    return tables;
}

}  // namespace warren::chunk
