// SPDX-License-Identifier: Apache-2.0
// Freeing device memory waits for all kernels, so buffers are reused where possible.
#include "gpu/buffer.hpp"

#include <cuda_runtime_api.h>

#include "gpu/failure.hpp"

namespace warren::gpu {
namespace detail {

Errc allocate_device(void** at, u64 bytes) {
    return check(cudaMalloc(at, bytes), "cudaMalloc");
}

void free_device(void* at) {
    static_cast<void>(check(cudaFree(at), "cudaFree"));
}

Errc allocate_pinned(void** at, u64 bytes) {
    // Portable: pinned for threads that use other GPUs too. Mapped: the device can access it at
    // `at`.
    return check(cudaHostAlloc(at, bytes, cudaHostAllocPortable | cudaHostAllocMapped),
                 "cudaHostAlloc");
}

void free_pinned(void* at) {
    static_cast<void>(check(cudaFreeHost(at), "cudaFreeHost"));
}

}  // namespace detail

PinnedRange::PinnedRange(void* at, u64 bytes) {
    constexpr unsigned for_all = cudaHostRegisterPortable | cudaHostRegisterMapped;
    const cudaError_t registered = cudaHostRegister(at, bytes, for_all);
    if (check(registered, "cudaHostRegister") == Errc::ok) {
        at_ = at;
    } else if (registered == cudaSuccess) {
        // A test made this call fail: if the range stayed registered, later memory there would
        // count as pinned.
        static_cast<void>(cudaHostUnregister(at));
    }
}

PinnedRange::~PinnedRange() {
    if (at_ != nullptr) static_cast<void>(check(cudaHostUnregister(at_), "cudaHostUnregister"));
}

}  // namespace warren::gpu
