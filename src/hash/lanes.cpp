// SPDX-License-Identifier: Apache-2.0
// Determines which vectors this processor has. 16 lanes need AVX-512 with F, BW, DQ and VL. The
// processor is queried once, at the first call.
#include "hash/lanes.hpp"

#include <array>

namespace warren::hash {

extern const LaneSet lanes_4;
extern const LaneSet lanes_8;
extern const LaneSet lanes_16;

namespace {

struct Found {
    std::array<const LaneSet*, 3> sets{};
    u32 count = 0;

    Found() {
#if defined(__x86_64__)
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
            sets[count++] = &lanes_16;
        }
        if (__builtin_cpu_supports("avx2")) sets[count++] = &lanes_8;
#endif
        sets[count++] = &lanes_4;
    }
};

}  // namespace

std::span<const LaneSet* const> lane_sets() {
    static const Found found;
    return {found.sets.data(), found.count};
}

const LaneSet& widest_lanes() {
    return *lane_sets().front();
}

}  // namespace warren::hash
