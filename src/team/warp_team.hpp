// SPDX-License-Identifier: Apache-2.0
// A warp as a team, or a tile of one: W neighbouring lanes, so that a warp has 32 / W teams, each
// with an operation of its own. With smaller teams one operation takes longer, and the throughput
// is higher.
//
// Invariant: only lanes of the same tile synchronise, and all of them do: the mask of a tile is
// fixed. `__activemask()` is never used, because it tells which lanes the compiler has scheduled
// together, not which lanes are in the team. The tiles of a warp may diverge; where they do not,
// they share instructions.
//
// Shuffles and ballots alone do not order memory accesses. Here they do: a lane's reads and writes
// before a collective call precede what the other lanes do after it, as with LockstepTeam.
#pragma once

#include <cstring>

#include "base/check.hpp"
#include "team/team.hpp"

#if defined(__CUDACC__)

namespace warren {

/// Every member is for the device. Members are also marked for the host because the templates over
/// teams are, and nvcc checks both halves of each instantiation.
template <u32 W>
struct TileTeam {
    static_assert(W > 1 && W <= 32 && (W & (W - 1)) == 0);
    static constexpr u32 width = W;
    static constexpr bool is_part_of_warp = W < 32;

    u32 worker = 0;

#if defined(__CUDA_ARCH__)
    WARREN_HD u32 lane() const {
        return threadIdx.x % W;
    }
    WARREN_HD u32 ballot(bool vote) const {
        sync();
        return __ballot_sync(mask(), vote) >> shift() & (~0u >> (32 - W));
    }
    WARREN_HD void sync() const {
        __syncwarp(mask());
    }

    /// The value of lane `from` of the tile. T is split into 32-bit words with one shuffle each.
    template <class T>
    WARREN_HD T broadcast(T value, u32 from) const {
        static_assert(std::is_trivially_copyable_v<T>);
        constexpr u32 words = (sizeof(T) + 3) / 4;
        u32 raw[words] = {};
        memcpy(raw, &value, sizeof(T));
        sync();
        for (u32 i = 0; i < words; ++i)
            raw[i] = __shfl_sync(mask(), raw[i], static_cast<int>(from), W);
        memcpy(&value, raw, sizeof(T));
        return value;
    }
#else
    WARREN_HD u32 lane() const {
        return no_device<u32>();
    }
    WARREN_HD u32 ballot(bool /*vote*/) const {
        return no_device<u32>();
    }
    WARREN_HD void sync() const {
        no_device<u32>();
    }
    template <class T>
    WARREN_HD T broadcast(T /*value*/, u32 /*from*/) const {
        return no_device<T>();
    }
#endif
    WARREN_HD bool is_leader() const {
        return lane() == 0;
    }

 private:
#if defined(__CUDA_ARCH__)
    WARREN_HD u32 shift() const {
        return threadIdx.x % 32 / W * W;
    }
    WARREN_HD u32 mask() const {
        return (~0u >> (32 - W)) << shift();
    }
#endif
    template <class T>
    [[noreturn]] static WARREN_HD T no_device() {
        check_failed("a tile of a warp runs on a GPU", __FILE__, __LINE__);
    }
};

using WarpTeam = TileTeam<32>;

}  // namespace warren

#endif
