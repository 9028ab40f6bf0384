// SPDX-License-Identifier: Apache-2.0
// An engine that can be lost as a GPU is: from one moment on every command and every commit answers
// EIO, and what no commit had taken is gone. So all that follows a loss is tested without a GPU.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "fs/disk/disk.hpp"
#include "warren/volume.hpp"

namespace warren {

/// Opens the volume on `disk` on such an engine; it is lost once `is_lost()`, which it asks before
/// all that it does, says so, and `options.report` hears of it.
std::unique_ptr<Volume> open_on_losable_engine(std::unique_ptr<Disk> disk,
                                               const OpenOptions& options, Failure& failure,
                                               std::function<bool()> is_lost);

/// The same of the image at `path`. With EngineChoice::cpu it is an ordinary volume.
std::unique_ptr<Volume> open_on_losable_engine(const std::string& path, const OpenOptions& options,
                                               Failure& failure, std::function<bool()> is_lost);

}  // namespace warren
