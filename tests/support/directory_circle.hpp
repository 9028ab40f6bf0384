// SPDX-License-Identifier: Apache-2.0
// A directory with a name from its own earlier life that leads to one above it: what a lost write
// of its leaf may leave.
#pragma once

#include <memory>

#include "tests/support/memory_disk.hpp"

namespace warren {

/// A volume with /top/middle/low, where low has a name for top. All is owned by user 1000.
std::unique_ptr<MemoryDisk> make_directory_circle();

}  // namespace warren
