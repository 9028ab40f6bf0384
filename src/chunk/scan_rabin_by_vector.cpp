// SPDX-License-Identifier: Apache-2.0
// Rabin without lookups. A step of the fingerprint is a linear map over GF(2), and GFNI applies an
// 8 x 8 matrix to 64 bytes with one instruction. So 64 parts of the input are processed in
// parallel, one in each byte of a vector, and the fingerprints are stored in planes: plane k has
// byte k of all 64 fingerprints. Shifting by a byte renames planes; matrices add the contributions
// of the byte that leaves at the top, the byte that leaves the window and the byte that enters.
//
// Invariant: fingerprints are shifted up so that the top plane is exactly the 8 bits that leave.
#include <algorithm>
#include <cstring>

#include "chunk/scanner.hpp"
#include "chunk/streams.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
// g++ 12 warns about uninitialized vectors in its own header (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace warren::chunk {

#if defined(__x86_64__)

#define WARREN_GFNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,gfni")))

namespace {

constexpr u32 lanes = 64;
constexpr u32 tile_rows = 64;
constexpr u64 longest_part = 4096;

/// The matrix of a linear map from a byte to a byte, in the format of vgf2p8affineqb: byte 7 - i
/// holds the input bits whose sum is bit i of the output.
template <class Map>
u64 matrix_of(const Map& map) {
    u64 matrix = 0;
    for (u32 in = 0; in < 8; ++in) {
        const u8 image = map(static_cast<u8>(1u << in));
        for (u32 out = 0; out < 8; ++out) {
            if ((image >> out & 1) != 0) matrix |= u64{1} << ((7 - out) * 8 + in);
        }
    }
    return matrix;
}

/// The maps of one step for a fingerprint of up to 8 planes, and what matches.
struct Maps {
    u64 top[8];     // what the leaving top byte adds to each plane
    u64 remove[8];  // what the byte that leaves the window adds
    u64 enter[2];   // what the entering byte adds
    u8 mask[8];
    u8 value[8];
};

Maps make_maps(const Rule& rule, const RabinTables& tables, u32 planes) {
    const u32 raise = planes * 8 - degree(rule.polynomial);
    Maps maps{};
    for (u32 plane = 0; plane < planes; ++plane) {
        auto byte_of = [&](u64 word) { return static_cast<u8>(word << raise >> (plane * 8)); };
        maps.top[plane] = matrix_of([&](u8 in) {
            const u64 leaving = u64{in} << tables.shift;
            return byte_of(tables.append[in] ^ (leaving << 8));
        });
        maps.remove[plane] = matrix_of([&](u8 in) { return byte_of(tables.remove[in]); });
        if (plane < 2) maps.enter[plane] = matrix_of([&](u8 in) { return byte_of(in); });
        maps.mask[plane] = byte_of(rule.mask);
        maps.value[plane] = byte_of(rule.value);
    }
    return maps;
}

/// Transposes 8 bytes of each of 64 parts, which are `part` bytes apart, into 8 rows of 64.
WARREN_GFNI inline void transpose_eight(const u8* bytes, u64 part, u8* rows) {
    // Transposes an 8 x 8 square of bytes in a vector.
    alignas(64) static constexpr u8 over_diagonal[64] = {
        0,  8,  16, 24, 32, 40, 48, 56, 1,  9,  17, 25, 33, 41, 49, 57, 2,  10, 18, 26, 34, 42,
        50, 58, 3,  11, 19, 27, 35, 43, 51, 59, 4,  12, 20, 28, 36, 44, 52, 60, 5,  13, 21, 29,
        37, 45, 53, 61, 6,  14, 22, 30, 38, 46, 54, 62, 7,  15, 23, 31, 39, 47, 55, 63};
    const __m512i order = _mm512_load_si512(over_diagonal);
    __m512i square[8];
#pragma GCC unroll 8
    for (u32 group = 0; group < 8; ++group) {
        const u8* at = bytes + group * 8 * part;
        alignas(64) u64 words[8];
#pragma GCC unroll 8
        for (u32 line = 0; line < 8; ++line)
            std::memcpy(&words[line], at + line * part, 8);
        square[group] = _mm512_permutexvar_epi8(order, _mm512_load_si512(words));
    }
    __m512i pair[8];
#pragma GCC unroll 4
    for (u32 i = 0; i < 8; i += 2) {
        pair[i] = _mm512_unpacklo_epi64(square[i], square[i + 1]);      // rows 0 2 4 6
        pair[i + 1] = _mm512_unpackhi_epi64(square[i], square[i + 1]);  // rows 1 3 5 7
    }
#pragma GCC unroll 2
    for (u32 odd = 0; odd < 2; ++odd) {
        const __m512i a = _mm512_shuffle_i64x2(pair[odd], pair[2 + odd], 0x88);  // 0 4
        const __m512i b = _mm512_shuffle_i64x2(pair[odd], pair[2 + odd], 0xdd);  // 2 6
        const __m512i c = _mm512_shuffle_i64x2(pair[4 + odd], pair[6 + odd], 0x88);
        const __m512i d = _mm512_shuffle_i64x2(pair[4 + odd], pair[6 + odd], 0xdd);
        _mm512_store_si512(rows + lanes * (0 + odd), _mm512_shuffle_i64x2(a, c, 0x88));
        _mm512_store_si512(rows + lanes * (4 + odd), _mm512_shuffle_i64x2(a, c, 0xdd));
        _mm512_store_si512(rows + lanes * (2 + odd), _mm512_shuffle_i64x2(b, d, 0x88));
        _mm512_store_si512(rows + lanes * (6 + odd), _mm512_shuffle_i64x2(b, d, 0xdd));
    }
}

template <u32 planes>
struct Fingerprints {
    __m512i plane[planes];

    /// One step of all 64 fingerprints: a byte enters, and one leaves unless `out_row` is null.
    WARREN_GFNI inline void roll(const Maps& maps, const u8* in_row, const u8* out_row) {
        const __m512i in = _mm512_load_si512(in_row);
        const __m512i top = plane[planes - 1];
        __m512i out = _mm512_setzero_si512();
        if (out_row != nullptr) out = _mm512_load_si512(out_row);
#pragma GCC unroll 8
        for (u32 k = planes - 1; k < planes; --k) {
            __m512i sum = _mm512_gf2p8affine_epi64_epi8(top, matrix(maps.top[k]), 0);
            if (k > 0) sum = _mm512_xor_si512(sum, plane[k - 1]);
            if (out_row != nullptr) {
                sum = _mm512_xor_si512(
                    sum, _mm512_gf2p8affine_epi64_epi8(out, matrix(maps.remove[k]), 0));
            }
            if (k < 2) {
                sum = _mm512_xor_si512(sum,
                                       _mm512_gf2p8affine_epi64_epi8(in, matrix(maps.enter[k]), 0));
            }
            plane[k] = sum;
        }
    }

    /// The lanes that match, considering planes `first` to `last`.
    WARREN_GFNI inline u64 matches(const Maps& maps, u32 first, u32 last) const {
        __m512i difference = _mm512_setzero_si512();
#pragma GCC unroll 8
        for (u32 k = 0; k < planes; ++k) {
            if (k < first || k > last) continue;
            const __m512i value = _mm512_set1_epi8(static_cast<char>(maps.value[k]));
            const __m512i mask = _mm512_set1_epi8(static_cast<char>(maps.mask[k]));
            // difference | ((plane ^ value) & mask)
            difference = _mm512_or_si512(difference,
                                         _mm512_and_si512(_mm512_xor_si512(plane[k], value), mask));
        }
        return _mm512_testn_epi8_mask(difference, difference);
    }

 private:
    WARREN_GFNI static inline __m512i matrix(u64 bits) {
        return _mm512_set1_epi64(static_cast<long long>(bits));
    }
};

/// Scans 64 parts of `part` bytes each, where `part` is a multiple of 64.
template <u32 planes, u32 last_masked>
WARREN_GFNI void scan_parts(const Maps& maps, u32 window, const u8* bytes, u64 part, u64* bits) {
    // Two tiles: the current rows, and the previous ones, with the bytes that leave the window.
    alignas(64) u8 rows[2 * tile_rows * lanes];
    Fingerprints<planes> hashes;
    for (u32 k = 0; k < planes; ++k)
        hashes.plane[k] = _mm512_setzero_si512();
    u8* const tiles[2] = {rows, rows + tile_rows * lanes};
    auto fill = [&](u8* tile, const u8* from) WARREN_GFNI {
        for (u32 row = 0; row < tile_rows; row += 8)
            transpose_eight(from + row, part, tile + row * lanes);
    };
    fill(tiles[1], bytes - tile_rows);
    for (u32 row = tile_rows - window; row < tile_rows; ++row)
        hashes.roll(maps, tiles[1] + row * lanes, nullptr);
    for (u64 base = 0; base < part; base += tile_rows) {
        const u32 side = static_cast<u32>(base / tile_rows % 2);
        fill(tiles[side], bytes + base);
        auto step = [&](u32 row, const u8* out_row) WARREN_GFNI {
            hashes.roll(maps, tiles[side] + row * lanes, out_row);
            u64 hits = hashes.matches(maps, 0, last_masked);
            while (hits != 0)
                [[unlikely]] {
                    const auto lane = static_cast<u64>(std::countr_zero(hits));
                    hits &= hits - 1;
                    set_bit(bits, lane * part + base + row);
                }
        };
        for (u32 row = 0; row < window; ++row)
            step(row, tiles[side ^ 1] + (tile_rows - window + row) * lanes);
        for (u32 row = window; row < tile_rows; ++row)
            step(row, tiles[side] + (row - window) * lanes);
    }
}

using ScanParts = void (*)(const Maps&, u32, const u8*, u64, u64*);

template <u32 planes>
ScanParts scan_of(u32 last_masked) {
    return last_masked < 2   ? scan_parts<planes, 1>
           : last_masked < 4 ? scan_parts<planes, 3>
                             : scan_parts<planes, planes - 1>;
}

ScanParts choose_scan(u32 planes, u32 last_masked) {
    switch (planes) {
        case 2:
            return scan_of<2>(last_masked);
        case 3:
            return scan_of<3>(last_masked);
        case 4:
            return scan_of<4>(last_masked);
        case 5:
            return scan_of<5>(last_masked);
        case 6:
            return scan_of<6>(last_masked);
        case 7:
            return scan_of<7>(last_masked);
        default:
            return scan_of<8>(last_masked);
    }
}

}  // namespace

bool can_scan_rabin_by_vector() {
    static const bool can = __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("gfni");
    return can;
}

void scan_rabin_by_vector(const Rule& rule, const RabinTables& tables, const u8* bytes, u64 count,
                          u64* bits) {
    const u32 planes = (degree(rule.polynomial) + 7) / 8;
    const Maps maps = make_maps(rule, tables, planes);
    u32 last_masked = 0;
    for (u32 plane = 0; plane < planes; ++plane) {
        if (maps.mask[plane] != 0) last_masked = plane;
    }
    const ScanParts scan = choose_scan(planes, last_masked);
    u64 done = 0;
    while (count - done >= lanes * tile_rows) {
        const u64 part = std::min(longest_part, (count - done) / lanes / tile_rows * tile_rows);
        scan(maps, rule.window_bytes, bytes + done, part, bits + done / 64);
        done += lanes * part;
    }
    if (done < count)
        scan_rabin_by_table(rule, tables, bytes + done, count - done, bits + done / 64);
}

#else

bool can_scan_rabin_by_vector() {
    return false;
}

void scan_rabin_by_vector(const Rule& rule, const RabinTables& tables, const u8* bytes, u64 count,
                          u64* bits) {
    scan_rabin_by_table(rule, tables, bytes, count, bits);
}

#endif

}  // namespace warren::chunk
