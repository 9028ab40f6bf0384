// SPDX-License-Identifier: Apache-2.0
// Which engine the tests open volumes with: WARREN_TEST_ENGINE says it, else whatever the volume
// would choose. `cpu` and `cuda` are those of the program; `commands` is the CPU's behind the back
// of the volume and in a memory of its own: all that a volume does for such engines is tested
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

/// The engine `commands` for the volume of `store`, which outlives it.
std::unique_ptr<Engine> make_command_engine(const core::Store& store, u64 meta_buffer_blocks = 0);

/// Opens the volume on `disk` with the engine that the tests are run for.
std::unique_ptr<Volume> open_on_test_engine(std::unique_ptr<Disk> disk, const OpenOptions& options,
                                            Failure& failure, u64 hash_mask = ~u64{0});

/// The name that WARREN_TEST_ENGINE gives; `otherwise` if it gives none.
std::string test_engine_name(std::string_view otherwise);

/// The engine for tests of those with a memory of their own: `commands`, or `cuda` if
/// WARREN_TEST_ENGINE says so.
std::string engine_of_its_own();

/// What a test does with a volume that has its engine, before the first operation.
using AdjustVolume = std::function<void(VolumeImplementation&)>;

/// Opens the volume on `disk` with the engine of this name: cpu, cuda or commands.
std::unique_ptr<Volume> open_on_engine(std::unique_ptr<Disk> disk, std::string_view engine,
                                       const OpenOptions& options, Failure& failure,
                                       u64 hash_mask = ~u64{0}, const AdjustVolume& adjust = {});

/// Opens the volume on `disk` with the engine `commands` behind what `wrap` makes of it.
std::unique_ptr<Volume> open_on_commands(
    std::unique_ptr<Disk> disk, const OpenOptions& options, Failure& failure,
    const std::function<std::unique_ptr<Engine>(std::unique_ptr<Engine>)>& wrap,
    u64 hash_mask = ~u64{0}, const AdjustVolume& adjust = {});

}  // namespace warren
