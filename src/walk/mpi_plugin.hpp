// SPDX-License-Identifier: Apache-2.0
// Finds and loads the plug-in for an MPI.
#pragma once

#include <string>

#include "walk/launch.hpp"
#include "walk/mpi/plugin.h"

namespace warren::walk {

/// Returns null and sets `problem` if there is no such plug-in, if it cannot be loaded, or if its
/// interface has another version.
const warren_mpi_plugin_table* load_mpi_plugin(const Mpi& mpi, std::string& problem);

}  // namespace warren::walk
