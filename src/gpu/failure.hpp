// SPDX-License-Identifier: Apache-2.0
// Failures of the CUDA runtime as values of the rest of the program: an Errc for code, and for
// people the name of the call and of the error.
//
// Invariant: every error of the runtime passes through check(), so last_failure() reports it.
#pragma once

#include <string>

#include "warren/result.hpp"
#include "warren/volume.hpp"

namespace warren::gpu {

/// Errc::ok for 0 (cudaSuccess); else notes that `call` failed, for last_failure(), and answers
/// Errc::no_memory, no_device or io. `code` is a cudaError_t.
Errc check(int code, const char* call);

/// As check() for a CUresult of the driver.
Errc check_driver(int code, const char* call);

/// For tests: of the calls checked from now on, in any thread, the `nth` reports cudaErrorUnknown,
/// although it was made; 0: none. Returns how many calls were checked since the last fail_call().
u64 fail_call(u64 nth);

/// What failed last in this thread: its Errc and a line such as
/// "cudaMalloc: out of memory (cudaErrorMemoryAllocation)". Errc::ok and no text if nothing did.
const Failure& last_failure();

/// Notes a failure that is not the runtime's own, as check() does.
Errc fail(Errc code, const std::string& message);

}  // namespace warren::gpu
