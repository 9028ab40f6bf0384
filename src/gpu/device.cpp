// SPDX-License-Identifier: Apache-2.0
// Queries do not fail: without a driver, or with one too old, there are no GPUs and no errors.
#include "gpu/device.hpp"

#include <cuda_runtime_api.h>

#include <string>

#include "gpu/failure.hpp"

namespace warren::gpu {
namespace {

int attribute(cudaDeviceAttr which, int device) {
    int value = 0;
    if (cudaDeviceGetAttribute(&value, which, device) == cudaSuccess) return value;
    static_cast<void>(cudaGetLastError());
    return 0;
}

}  // namespace

int device_count() {
    int count = 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
    static_cast<void>(cudaGetLastError());
    return 0;
}

int current_device() {
    int index = -1;
    return cudaGetDevice(&index) == cudaSuccess ? index : -1;
}

Result<u32> multiprocessors() {
    int device = 0;
    int count = 0;
    WARREN_TRY(check(cudaGetDevice(&device), "cudaGetDevice"));
    WARREN_TRY(check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
                     "cudaDeviceGetAttribute"));
    return static_cast<u32>(count);
}

Errc use_device(int index) {
    // The query is cheap; setting the device may be expensive.
    return current_device() == index ? Errc::ok : check(cudaSetDevice(index), "cudaSetDevice");
}

Errc describe_device(int index, DeviceInfo& info) {
    cudaDeviceProp properties;
    WARREN_TRY(check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties"));
    WARREN_TRY(use_device(index));
    info.index = index;
    info.name = properties.name;
    info.multiprocessors = properties.multiProcessorCount;
    info.capability_major = properties.major;
    info.capability_minor = properties.minor;
    std::size_t free_bytes = 0;
    std::size_t all_bytes = 0;
    WARREN_TRY(check(cudaMemGetInfo(&free_bytes, &all_bytes), "cudaMemGetInfo"));
    info.memory_bytes = all_bytes;
    info.memory_free_bytes = free_bytes;
    WARREN_TRY(check(cudaDriverGetVersion(&info.driver_version), "cudaDriverGetVersion"));
    WARREN_TRY(check(cudaRuntimeGetVersion(&info.runtime_version), "cudaRuntimeGetVersion"));
    // The runtime has no name for CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED.
    constexpr auto virtual_memory = static_cast<cudaDeviceAttr>(102);
    info.has_virtual_memory = attribute(virtual_memory, index) != 0;
    info.shares_through_mps = attribute(cudaDevAttrMpsEnabled, index) != 0;
    return Errc::ok;
}

Errc choose_device(u32 index, DeviceInfo& info) {
    const auto count = static_cast<u32>(device_count());
    if (count == 0) return fail(Errc::no_device, "this machine has no GPU that CUDA can use");
    if (index >= count) {
        return fail(Errc::no_device, "there is no GPU " + std::to_string(index) +
                                         ": they are numbered from 0 to " +
                                         std::to_string(count - 1));
    }
    WARREN_TRY(describe_device(static_cast<int>(index), info));
    if (info.has_virtual_memory) return Errc::ok;
    return fail(Errc::not_supported, info.name + " has no virtual memory management");
}

DeviceScope::DeviceScope(int index) {
    const int now = current_device();
    code_ = use_device(index);
    if (now != index) before_ = now;
}

DeviceScope::~DeviceScope() {
    if (before_ >= 0) static_cast<void>(use_device(before_));
}

}  // namespace warren::gpu
