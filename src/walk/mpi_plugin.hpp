// SPDX-License-Identifier: Apache-2.0
// Finds and loads the plug-in for an MPI.
#pragma once

#include <string>

#include "walk/launch.hpp"
#include "walk/mpi/plugin.h"

namespace warren::walk {

/// Null, with the `problem`, if there is no such plug-in, if it cannot be loaded or if it has
/// another version of the interface.
const warren_mpi_plugin_table* load_mpi_plugin(const Mpi& mpi, std::string& problem);

}  // namespace warren::walk
