// SPDX-License-Identifier: Apache-2.0
// The device's clock, one for all its multiprocessors.
#pragma once

#include "warren/types.hpp"

#if defined(__CUDACC__)

namespace warren::cuda_engine {

/// Nanoseconds since a moment in the past.
__device__ inline u64 device_nanoseconds() {
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

}  // namespace warren::cuda_engine

#endif
