// SPDX-License-Identifier: Apache-2.0
// A warp as a team: all 32 lanes present, full mask always. `__activemask()` is never asked: it
// says what the compiler scheduled, not who belongs to the team.
//
// Shuffles and ballots order no memory by themselves. Here they do: what a lane reads or writes
// before a collective call comes before what the others do after it, as with LockstepTeam.
#pragma once

#include "base/check.hpp"
#include "team/team.hpp"

#if defined(__CUDACC__)

namespace warren {

/// Every member is for the device. They are marked for the host too because the templates over
/// teams are, and nvcc checks both halves of what it instantiates.
struct WarpTeam {
    static constexpr u32 width = 32;

    u32 worker = 0;

#if defined(__CUDA_ARCH__)
    WARREN_HD u32 lane() const {
        return threadIdx.x & 31u;
    }
    WARREN_HD u32 ballot(bool vote) const {
        __syncwarp();
        return __ballot_sync(~0u, vote);
    }
    WARREN_HD void sync() const {
        __syncwarp();
    }

    /// What lane `from` holds. T is cut into 32-bit words, each one shuffle.
    template <class T>
    WARREN_HD T broadcast(T value, u32 from) const {
        static_assert(std::is_trivially_copyable_v<T>);
        constexpr u32 words = (sizeof(T) + 3) / 4;
        u32 raw[words] = {};
        memcpy(raw, &value, sizeof(T));
        __syncwarp();
        for (u32 i = 0; i < words; ++i)
            raw[i] = __shfl_sync(~0u, raw[i], static_cast<int>(from));
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
    template <class T>
    [[noreturn]] static WARREN_HD T no_device() {
        check_failed("a warp runs on a GPU", __FILE__, __LINE__);
    }
};

}  // namespace warren

#endif
