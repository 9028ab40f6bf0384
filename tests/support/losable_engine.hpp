// SPDX-License-Identifier: Apache-2.0
// An engine that can be lost as a GPU is: from one moment on every command and every commit answers
// EIO, and what no commit had taken is gone. So all that follows a loss is tested without a GPU.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "warren/volume.hpp"

namespace warren {

/// Opens the image at `path` on such an engine; it is lost once `is_lost()` says so, and
/// `options.report` hears of it. With EngineChoice::cpu it is an ordinary volume.
std::unique_ptr<Volume> open_on_losable_engine(const std::string& path, const OpenOptions& options,
                                               Failure& failure, std::function<bool()> is_lost);

}  // namespace warren
