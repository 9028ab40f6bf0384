// SPDX-License-Identifier: Apache-2.0
// Failures of the CUDA runtime as values: an Errc for code, and for the user the name of the call
// and of the error.
//
// Invariant: every error of the runtime passes through check(), so last_failure() reports it.
#pragma once

#include <string>

#include "warren/failure.hpp"
#include "warren/result.hpp"

namespace warren::gpu {

/// Returns Errc::ok if `code`, a cudaError_t, is 0 (cudaSuccess). Otherwise records the failure of
/// `call` for last_failure() and returns Errc::no_memory, no_device, not_supported or io.
Errc check(int code, const char* call);

/// Like check() for a CUresult of the driver. Errors other than out of memory are Errc::io.
Errc check_driver(int code, const char* call);

/// For tests: the `nth` call that is checked from here on, on any thread, reports cudaErrorUnknown
/// although it was made; 0: none. Returns how many calls were checked since the last fail_call().
u64 fail_call(u64 nth);

/// The last failure on this thread: its Errc and a line such as "cudaMalloc: out of memory
/// (cudaErrorMemoryAllocation)". Errc::ok and no text if there was none.
const Failure& last_failure();

/// Records a failure that is not one of the runtime, for last_failure(), and returns `code`.
Errc fail(Errc code, const std::string& message);

}  // namespace warren::gpu
