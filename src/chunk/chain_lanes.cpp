// SPDX-License-Identifier: Apache-2.0
// Four gear hashes, each at a position of its own. Loading and looking up every byte limits the
// speed; vector instructions, where available, add and test for all four at once.
#include "chunk/chains.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
// g++ 12 warns about uninitialized vectors in its own header (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace warren::chunk {

namespace {

/// Records a match of the common bits after `steps` bytes if it also matches the lane's own mask.
bool note_match(ChainLane& lane, u64 hash, u64 steps) {
    if ((hash & lane.mask) != 0 || lane.found != 0) return false;
    lane.found = steps;
    return true;
}

}  // namespace

u64 step_lanes_by_number(const u64* table, u64 common, const u8* bytes, ChainLanes& lanes,
                         u64 steps) {
    const u8* at[chain_lanes];
    u64 hashes[chain_lanes];
    for (u32 lane = 0; lane < chain_lanes; ++lane) {
        at[lane] = bytes + lanes[lane].at;
        hashes[lane] = lanes[lane].hash;
    }
    u64 done = 0;
    while (done < steps) {
#pragma GCC unroll 4
        for (u32 lane = 0; lane < chain_lanes; ++lane) {
            hashes[lane] = hashes[lane] + hashes[lane] + table[at[lane][done]];
            if ((hashes[lane] & common) == 0) [[unlikely]] {
                if (note_match(lanes[lane], hashes[lane], done + 1)) steps = done + 1;
            }
        }
        ++done;
    }
    for (u32 lane = 0; lane < chain_lanes; ++lane) {
        lanes[lane].at += done;
        lanes[lane].hash = hashes[lane];
    }
    return done;
}

#if defined(__x86_64__)

#define WARREN_VECTOR __attribute__((target("avx512f,avx512dq,avx512vl")))

namespace {

WARREN_VECTOR inline __m128i look_up_two(const u64* table, u8 low, u8 high) {
    const __m128i first = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(table + low));
    return _mm_castps_si128(
        _mm_loadh_pi(_mm_castsi128_ps(first), reinterpret_cast<const __m64*>(table + high)));
}

WARREN_VECTOR inline __m256i look_up(const u64* table, const u8* const* at, u64 index) {
    const __m128i low = look_up_two(table, at[0][index], at[1][index]);
    const __m128i high = look_up_two(table, at[2][index], at[3][index]);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

WARREN_VECTOR inline __m256i roll(__m256i hashes, __m256i entries) {
    return _mm256_add_epi64(_mm256_add_epi64(hashes, hashes), entries);
}

bool note_matches(ChainLanes& lanes, u32 matches, const u64* hashes, u64 steps) {
    bool is_found = false;
    for (u32 lane = 0; lane < chain_lanes; ++lane) {
        if ((matches >> lane & 1) != 0)
            is_found = note_match(lanes[lane], hashes[lane], steps) || is_found;
    }
    return is_found;
}

}  // namespace

bool can_step_lanes_by_vector() {
    static const bool can =
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    return can;
}

WARREN_VECTOR u64 step_lanes_by_vector(const u64* table, u64 common, const u8* bytes,
                                       ChainLanes& lanes, u64 steps) {
    const u8* at[chain_lanes];
    alignas(32) u64 numbers[2][chain_lanes];
    for (u32 lane = 0; lane < chain_lanes; ++lane) {
        at[lane] = bytes + lanes[lane].at;
        numbers[0][lane] = lanes[lane].hash;
    }
    auto* const first_numbers = reinterpret_cast<__m256i*>(numbers[0]);
    auto* const second_numbers = reinterpret_cast<__m256i*>(numbers[1]);
    const __m256i mask = _mm256_set1_epi64x(static_cast<long long>(common));
    __m256i hashes = _mm256_load_si256(first_numbers);
    u64 done = 0;
    // Two steps per branch.
    while (done + 2 <= steps) {
        const __m256i first = roll(hashes, look_up(table, at, done));
        hashes = roll(first, look_up(table, at, done + 1));
        const __mmask8 first_matches = _mm256_testn_epi64_mask(first, mask);
        const __mmask8 matches = _mm256_testn_epi64_mask(hashes, mask);
        done += 2;
        if (!_kortestz_mask8_u8(first_matches, matches)) [[unlikely]] {
            _mm256_store_si256(first_numbers, first);
            _mm256_store_si256(second_numbers, hashes);
            bool is_found = note_matches(lanes, first_matches, numbers[0], done - 1);
            is_found = note_matches(lanes, matches, numbers[1], done) || is_found;
            if (is_found) steps = done;
        }
    }
    _mm256_store_si256(second_numbers, hashes);
    for (u32 lane = 0; lane < chain_lanes; ++lane) {
        lanes[lane].at += done;
        lanes[lane].hash = numbers[1][lane];
    }
    if (done < steps) {
        const u64 last = step_lanes_by_number(table, common, bytes, lanes, 1);
        for (ChainLane& lane : lanes)
            lane.found += lane.found != 0 ? done : 0;
        done += last;
    }
    return done;
}

#else

bool can_step_lanes_by_vector() {
    return false;
}

u64 step_lanes_by_vector(const u64* table, u64 common, const u8* bytes, ChainLanes& lanes,
                         u64 steps) {
    return step_lanes_by_number(table, common, bytes, lanes, steps);
}

#endif

}  // namespace warren::chunk
