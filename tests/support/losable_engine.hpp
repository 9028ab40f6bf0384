// SPDX-License-Identifier: Apache-2.0
// An engine that can be lost like a GPU: from one moment on every command and commit returns EIO,
// and uncommitted changes are gone. It lets tests cover the handling of a loss without a GPU.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "fs/disk/disk.hpp"
#include "warren/volume.hpp"

namespace warren {

/// Opens the volume on `disk` with such an engine. It calls `is_lost()` before each operation; once
/// that returns true the engine is lost, and `options.report` is called.
std::unique_ptr<Volume> open_on_losable_engine(std::unique_ptr<Disk> disk,
                                               const OpenOptions& options, Failure& failure,
                                               std::function<bool()> is_lost);

/// The same for the image at `path`. With EngineChoice::cpu it is an ordinary volume.
std::unique_ptr<Volume> open_on_losable_engine(const std::string& path, const OpenOptions& options,
                                               Failure& failure, std::function<bool()> is_lost);

}  // namespace warren
