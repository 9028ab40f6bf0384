// SPDX-License-Identifier: Apache-2.0
// A directory whose leaf has a stale name, which leads to a directory above it: a possible result
// of a lost write of the leaf.
#pragma once

#include <memory>

#include "tests/support/memory_disk.hpp"

namespace warren {

/// A volume with /top/middle/low, where low has a name for top. Everything belongs to user 1000.
std::unique_ptr<MemoryDisk> make_directory_circle();

}  // namespace warren
