// SPDX-License-Identifier: Apache-2.0
// The device's global timer, which all multiprocessors share.
#pragma once

#include "warren/types.hpp"

#if defined(__CUDACC__)

namespace warren::cuda_engine {

/// Nanoseconds since an unspecified moment.
__device__ inline u64 device_nanoseconds() {
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

}  // namespace warren::cuda_engine

#endif
