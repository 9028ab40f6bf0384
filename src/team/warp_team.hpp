// SPDX-License-Identifier: Apache-2.0
// A warp as a team: all 32 lanes present, full mask always. `__activemask()` is never asked: it
// says what the compiler scheduled, not who belongs to the team.
#pragma once

#include "team/team.hpp"

#if defined(__CUDACC__)

namespace warren {

struct WarpTeam {
    static constexpr u32 width = 32;

    u32 worker = 0;

    __device__ u32 lane() const { return threadIdx.x & 31u; }
    __device__ bool is_leader() const { return lane() == 0; }
    __device__ u32 ballot(bool vote) const { return __ballot_sync(~0u, vote); }
    __device__ void sync() const { __syncwarp(); }

    /// What lane `from` holds. T is cut into 32-bit words, each one shuffle.
    template <class T>
    __device__ T broadcast(T value, u32 from) const {
        static_assert(std::is_trivially_copyable_v<T>);
        constexpr u32 words = (sizeof(T) + 3) / 4;
        u32 raw[words] = {};
        memcpy(raw, &value, sizeof(T));
        for (u32 i = 0; i < words; ++i)
            raw[i] = __shfl_sync(~0u, raw[i], static_cast<int>(from));
        memcpy(&value, raw, sizeof(T));
        return value;
    }
};

}  // namespace warren

#endif
