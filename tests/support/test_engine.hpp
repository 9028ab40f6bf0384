// SPDX-License-Identifier: Apache-2.0
// The engine with which tests open volumes: WARREN_TEST_ENGINE, or the default of the volume. `cpu`
// and `cuda` are the program's engines. `commands` runs the CPU engine's code in a memory of its
// own, separate from the volume's, so that everything a volume does for such engines is tested
// without a GPU.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "fs/disk/disk.hpp"
#include "fs/engine/engine.hpp"
#include "warren/volume.hpp"

namespace warren {

/// The engine `commands` for the volume of `store`, which must outlive it.
std::unique_ptr<Engine> make_command_engine(const core::Store& store, u64 meta_buffer_blocks = 0);

/// Opens the volume on `disk` with the engine that the tests run on.
std::unique_ptr<Volume> open_on_test_engine(std::unique_ptr<Disk> disk, const OpenOptions& options,
                                            Failure& failure, u64 hash_mask = ~u64{0});

/// The value of WARREN_TEST_ENGINE; `otherwise` if it is not set.
std::string test_engine_name(std::string_view otherwise);

/// The engine for tests of engines with a memory of their own: `commands`, or `cuda` if
/// WARREN_TEST_ENGINE is that.
std::string engine_of_its_own();

/// Adjusts a volume that has its engine, before the first operation.
using AdjustVolume = std::function<void(VolumeImplementation&)>;

/// Opens the volume on `disk` with the engine of this name: cpu, cuda or commands.
std::unique_ptr<Volume> open_on_engine(std::unique_ptr<Disk> disk, std::string_view engine,
                                       const OpenOptions& options, Failure& failure,
                                       u64 hash_mask = ~u64{0}, const AdjustVolume& adjust = {});

/// Opens the volume on `disk` with the engine `commands`, wrapped by `wrap`.
std::unique_ptr<Volume> open_on_commands(
    std::unique_ptr<Disk> disk, const OpenOptions& options, Failure& failure,
    const std::function<std::unique_ptr<Engine>(std::unique_ptr<Engine>)>& wrap,
    u64 hash_mask = ~u64{0}, const AdjustVolume& adjust = {});

}  // namespace warren
