// SPDX-License-Identifier: Apache-2.0
// The runtime keeps its last error until the next query. check() clears it, so that a failure is
// reported once and not attributed to a later call.
#include "gpu/failure.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <atomic>

namespace warren::gpu {
namespace {

thread_local Failure last;
std::atomic<u64> calls{0};         // calls checked since fail_call()
std::atomic<u64> failing_call{0};  // 0: none

/// Whether this is the call that a test wants to fail.
bool fails_now() {
    const u64 wanted = failing_call.load(std::memory_order_relaxed);
    return calls.fetch_add(1, std::memory_order_relaxed) + 1 == wanted;
}

Errc code_for(cudaError_t error) {
    switch (error) {
        case cudaErrorMemoryAllocation:
        case cudaErrorHostMemoryAlreadyRegistered:
            return Errc::no_memory;
        case cudaErrorNoDevice:
        case cudaErrorInsufficientDriver:
        case cudaErrorInvalidDevice:
            return Errc::no_device;
        case cudaErrorNotSupported:
            return Errc::not_supported;
        default:
            return Errc::io;
    }
}

}  // namespace

Errc fail(Errc code, const std::string& message) {
    last = {code, message};
    return code;
}

Errc check(int code, const char* call) {
    auto error = static_cast<cudaError_t>(code);
    if (fails_now() && error == cudaSuccess) error = cudaErrorUnknown;
    if (error == cudaSuccess) return Errc::ok;
    static_cast<void>(cudaGetLastError());
    return fail(code_for(error), std::string(call) + ": " + cudaGetErrorString(error) + " (" +
                                     cudaGetErrorName(error) + ")");
}

Errc check_driver(int code, const char* call) {
    if (fails_now() && code == CUDA_SUCCESS) code = CUDA_ERROR_UNKNOWN;
    if (code == CUDA_SUCCESS) return Errc::ok;
    const Errc answer = code == CUDA_ERROR_OUT_OF_MEMORY ? Errc::no_memory : Errc::io;
    return fail(answer, std::string(call) + ": error " + std::to_string(code) + " of the driver");
}

u64 fail_call(u64 nth) {
    failing_call.store(nth, std::memory_order_relaxed);
    return calls.exchange(0, std::memory_order_relaxed);
}

const Failure& last_failure() {
    return last;
}

}  // namespace warren::gpu
