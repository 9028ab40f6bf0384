// SPDX-License-Identifier: Apache-2.0
// The engine that the command line selects: by the option --engine, else by WARREN_ENGINE in the
// environment, else `auto`.
//
// Invariant: read once, before a command opens an image; an unknown name is a usage error.
#pragma once

#include <string>

#include "warren/volume.hpp"

namespace warren::cli {

/// Takes the value of --engine, null if it was not given. Returns false, after an error message, if
/// there is no engine of that name.
bool choose_engine(const std::string* given);

/// The engine that was requested.
EngineChoice chosen_engine();

/// The engine for a command that opens an image itself. `auto` is the CPU engine here, because
/// initialising a GPU takes longer than such a command.
EngineChoice engine_for_command();

}  // namespace warren::cli
