// SPDX-License-Identifier: Apache-2.0
// If the driver is missing, the CUDA runtime reports no device as well. That suits the message.
#include "fs/engine/gpu_facts.hpp"

#if defined(WARREN_CUDA)
#include "gpu/device.hpp"
#include "gpu/failure.hpp"
#endif

namespace warren {

#if defined(WARREN_CUDA)

GpuFacts gpu_facts() {
    GpuFacts facts;
    facts.is_built = true;
    facts.count = static_cast<u32>(gpu::device_count());
    if (facts.count == 0) {
        facts.reason = "this machine has no GPU that CUDA can use";
        return facts;
    }
    gpu::DeviceInfo info;
    if (gpu::describe_device(0, info) != Errc::ok) {
        facts.reason = gpu::last_failure().message;
        return facts;
    }
    facts.is_there = true;
    facts.name = info.name;
    facts.memory_bytes = info.memory_bytes;
    facts.memory_free_bytes = info.memory_free_bytes;
    facts.multiprocessors = static_cast<u32>(info.multiprocessors);
    facts.cuda_version = std::to_string(info.driver_version / 1000) + "." +
                         std::to_string(info.driver_version % 1000 / 10);
    facts.shares_through_mps = info.shares_through_mps;
    return facts;
}

#else

GpuFacts gpu_facts() {
    GpuFacts facts;
    facts.reason = "this program was built without it";
    return facts;
}

#endif

}  // namespace warren
