// SPDX-License-Identifier: Apache-2.0
// What the CUDA engine lends to a bulk command while that is at work.
#pragma once

#include <functional>
#include <vector>

#include "fs/core/store.hpp"

namespace warren::cuda_engine {

struct EngineLoan {
    const core::Store& store;                                   // in device memory
    std::function<Errc(const std::vector<u64>& places)> bring;  // blocks into device memory
    /// Lets go of the engine for the time of the call, which may call the volume.
    std::function<Errc(const std::function<Errc()>& call)> let_go;
    std::function<Errc()> commit;  // of the volume
};

}  // namespace warren::cuda_engine
