// SPDX-License-Identifier: Apache-2.0
// The engine of machines with a GPU: metadata live in device memory and commands are run there by
// warps: single ones by a server that stays on the GPU, many at once by a launch. File data stay
// with the host, which reads in replies where they go.
//
// Invariant: a command runs while its caller shares the lock of commands, a bulk step while its
// caller shares that of steps. A cut has both alone, and waits for what a command applies after its
// answer, so no command is cut in two. After the device was lost nothing is answered but Errc::io:
// the image stays as the last commit left it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "fs/engine/engine.hpp"

namespace warren {

/// What the CUDA engine says about itself, for people and measurements.
struct CudaEngineFigures {
    std::string device;
    u64 mapped_bytes = 0;  // device memory of metadata
    float load_ms = 0;     // from the disk to the host, at the opening of the volume
    float upload_ms = 0;   // and from there to the device
    float cut_ms = 0;      // for so long the last commit kept commands from beginning
    u64 blocks_cut = 0;    // and took so many blocks
    // Of the last batch of items, by the device's clock.
    float batch_in_ms = 0;
    float batch_run_ms = 0;
    float batch_out_ms = 0;
    u32 batch_runs = 0;
    // Of the last step of a removal: until its root was in the queue, until the queue was empty,
    // until the end; and of the host: to launch, to wait.
    u64 removal_ns[5] = {};
};

struct CudaEngineOptions {
    /// Single commands go to a server that stays on the GPU; else each is a launch.
    bool is_resident = true;
    /// Told of what ends the engine; else it goes to the standard error stream.
    std::function<void(const std::string&)> report = {};
    /// Metadata blocks in device memory at once, 0 for all there are. With a limit bulk commands
    /// and batches of items are left to the volume, which gives commands.
    u64 meta_buffer_blocks = 0;
    /// Without these the engine leaves bulk commands to the volume.
    VolumeCalls volume = {};
};

/// The engine on the GPU for the volume of `host`, whose tables are filled and which outlives it.
/// Null and a line on why in `failure` where there is no GPU, or none that can do it.
std::unique_ptr<Engine> make_cuda_engine(const core::Store& host, std::string& failure,
                                         const CudaEngineOptions& options = {});

/// The figures of an engine that make_cuda_engine() made.
CudaEngineFigures figures_of(const Engine& engine);

}  // namespace warren
