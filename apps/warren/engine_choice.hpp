// SPDX-License-Identifier: Apache-2.0
// Which engine the command line asks for: the option --engine, else the environment's
// WARREN_ENGINE, else none in particular.
//
// Invariant: read once, before a command opens an image; a name that is no engine's ends the call.
#pragma once

#include <string>

#include "warren/volume.hpp"

namespace warren::cli {

/// Takes the value of --engine, null if it was not given. False, with a complaint, for a name that
/// is no engine's.
bool choose_engine(const std::string* given);

/// What was asked for.
EngineChoice chosen_engine();

/// The engine that a command takes which opens an image for itself. `auto` is the CPU engine here:
/// a GPU takes longer to get ready than such a command takes.
EngineChoice engine_for_command();

}  // namespace warren::cli
