// SPDX-License-Identifier: Apache-2.0
// A broken invariant stops the program: going on could write a damaged volume. Wrong bytes on disk
// are never a broken invariant; they are Errc::corrupt.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "base/host_device.hpp"

namespace warren {

#if defined(__CUDACC_RDC__)
/// Records the fault where the host finds it after the device has stopped. Defined once for all
/// device code of a program that is linked together.
__device__ void record_fault(const char* what, const char* file, int line);
#endif

/// Says where an invariant broke and stops. Never returns.
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
