// SPDX-License-Identifier: Apache-2.0
// Describes the GPU for users. It also works in a program that was built without CUDA, and on a
// machine without a driver.
//
// Invariant: gpu_facts() starts the CUDA runtime in this process, so a process that has called it
// must not fork and use a GPU in the child.
#pragma once

#include <string>

#include "gpu/device.hpp"

namespace warren {

struct GpuFacts {
    bool is_built = false;  // this program has the CUDA engine
    bool is_there = false;  // and there is a GPU; if not, only `reason` is set
    std::string reason;     // why there is no GPU
    int count = 0;          // of GPUs; the engine uses the first
    gpu::DeviceInfo first;
    std::string cuda_version;  // the newest that the driver supports
};

GpuFacts gpu_facts();

}  // namespace warren
