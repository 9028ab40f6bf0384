// SPDX-License-Identifier: Apache-2.0
// The engine of machines with a GPU. Metadata live in device memory, and warps run commands there:
// single commands on a server that stays on the GPU, many at once in a launch. File data stay on
// the host; replies tell it where to read or write them.
//
// Invariant: a command runs while its caller holds the lock of commands shared, a bulk step while
// its caller holds that of steps shared. A commit snapshot holds both exclusively, and waits for
// commands that apply after they have answered, so it contains whole commands. After the device was
// lost every call returns Errc::io, and the image stays as the last commit left it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "fs/engine/engine.hpp"

namespace warren {

/// Figures of the CUDA engine, for users and measurements.
struct CudaEngineFigures {
    std::string device;
    // The last step of a removal, by the device's clock: until its root was in the queue, until the
    // queue was empty, until the end.
    u64 removal_ns[3] = {};
};

struct CudaEngineOptions {
    u32 device = 0;
    /// Receives the message when the engine stops; if empty, notice() does.
    std::function<void(const std::string&)> report = {};
    /// How many metadata blocks may be in device memory; 0: no limit. With a limit the engine
    /// refuses bulk commands and batches of items, and the volume runs them as single commands.
    u64 meta_buffer_blocks = 0;
    /// Without these the engine refuses bulk commands, and the volume runs single commands.
    VolumeCalls volume = {};
};

/// Makes a CUDA engine for the volume of `host`, whose tables are filled in and which outlives the
/// engine. Null, and the reason in `failure`, if there is no GPU or it cannot be used.
std::unique_ptr<Engine> make_cuda_engine(const core::Store& host, std::string& failure,
                                         const CudaEngineOptions& options = {});

/// The figures of an engine made by make_cuda_engine().
CudaEngineFigures figures_of(const Engine& engine);

}  // namespace warren
