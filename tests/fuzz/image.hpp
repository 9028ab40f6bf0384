// SPDX-License-Identifier: Apache-2.0
// The volumes that the targets begin with: the same in every process, for an input means what it
// changes of them.
#pragma once

#include <memory>

#include "tests/support/memory_disk.hpp"
#include "warren/volume.hpp"

namespace warren::fuzz {

inline const Caller anybody{.check = false};

/// One of everything, closed.
const MemoryDisk& closed_image();
/// The same after changes and a crash: its journal must be replayed.
const MemoryDisk& cut_image();

/// Opens the volume on `disk`, which outlives it; null if that is not possible.
std::unique_ptr<Volume> open(Disk& disk, OpenOptions options = {});

}  // namespace warren::fuzz
