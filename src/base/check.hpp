// SPDX-License-Identifier: Apache-2.0
// A broken invariant stops the program: continuing could write a damaged volume. Invalid bytes on
// disk are not a broken invariant; they give Errc::corrupt.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "base/host_device.hpp"

namespace warren {

#if defined(__CUDACC_RDC__)
/// Records the failed check where the host finds it after the device has stopped. Defined once per
/// program, for all device code that is linked together.
__device__ void record_fault(const char* what, const char* file, int line);
#endif

/// Prints where a check failed and stops the program, or the kernel. Never returns.
[[noreturn]] WARREN_HD inline void check_failed(const char* what, const char* file, int line) {
#if defined(__CUDA_ARCH__)
#if defined(__CUDACC_RDC__)
    record_fault(what, file, line);
#else
    printf("warren: broken invariant: %s (%s:%d)\n", what, file, line);
#endif
    __trap();
#else
    std::fprintf(stderr, "warren: broken invariant: %s (%s:%d)\n", what, file, line);
    std::abort();
#endif
}

}  // namespace warren

#define WARREN_CHECK(condition) \
    ((condition) ? static_cast<void>(0) : ::warren::check_failed(#condition, __FILE__, __LINE__))
