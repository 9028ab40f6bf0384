// SPDX-License-Identifier: Apache-2.0
// If the driver is missing, the CUDA runtime reports no device as well. That suits the message.
#include "fs/engine/gpu_facts.hpp"

#if defined(WARREN_CUDA)
#include "gpu/failure.hpp"
#endif

namespace warren {

#if defined(WARREN_CUDA)

GpuFacts gpu_facts() {
    GpuFacts facts;
    facts.is_built = true;
    facts.count = gpu::device_count();
    if (facts.count == 0) {
        facts.reason = "this machine has no GPU that CUDA can use";
        return facts;
    }
    if (gpu::describe_device(0, facts.first) != Errc::ok) {
        facts.reason = gpu::last_failure().message;
        return facts;
    }
    facts.is_there = true;
    facts.cuda_version = std::to_string(facts.first.driver_version / 1000) + "." +
                         std::to_string(facts.first.driver_version % 1000 / 10);
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
