// SPDX-License-Identifier: Apache-2.0
// The two fences of a sequence lock (Boehm, "Can seqlocks get along with programming language
// memory models?", MSPC 2012). The data between them are relaxed atomic words.
#pragma once

#include "base/host_device.hpp"

namespace warren::core {

/// Goes between a reader's relaxed loads of the data and its second load of the version.
WARREN_HD inline void fence_acquire() {
#if defined(WARREN_CUDA)
    cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_device);
#else
    std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

/// Goes between the point where a writer takes the lock and its relaxed stores of the data.
WARREN_HD inline void fence_release() {
#if defined(WARREN_CUDA)
    cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_device);
#else
    std::atomic_thread_fence(std::memory_order_release);
#endif
}

}  // namespace warren::core
