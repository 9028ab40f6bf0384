// SPDX-License-Identifier: Apache-2.0
// Runs a command as an engine with memory of its own does: the command travels through the ring's
// code, and so does the reply. What the code forgets is missing at the other end.
#pragma once

#include <functional>

#include "fs/ops/command.hpp"

namespace warren {

/// Calls `run` with the command that arrives; `reply` is what of its reply arrives. Allocates
/// nothing. Errc::invalid in the reply if the command cannot be encoded.
void carry_command(const ops::Command& sent, ops::Reply& reply,
                   const std::function<void(const ops::Command&, ops::Reply&)>& run);

}  // namespace warren
