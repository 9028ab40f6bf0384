// SPDX-License-Identifier: Apache-2.0
// What the machine gives the CUDA engine, for people: the same question in a program that was
// built without it and on machines without a driver.
//
// Invariant: asking starts the CUDA runtime in this process, so a process that asked must not fork
// and use a GPU in its child.
#pragma once

#include <string>

#include "warren/types.hpp"

namespace warren {

struct GpuFacts {
    bool is_built = false;  // this program has the CUDA engine
    bool is_there = false;  // and a GPU to run it on; else nothing below is known but `reason`
    std::string reason;     // why there is none
    std::string name;
    u64 memory_bytes = 0;
    u64 memory_free_bytes = 0;
    u32 count = 0;  // of GPUs; the first is taken
    u32 multiprocessors = 0;
    std::string cuda_version;         // that the driver knows
    bool shares_through_mps = false;  // this process is a client of an MPS server
};

GpuFacts gpu_facts();

}  // namespace warren
