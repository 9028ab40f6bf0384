// SPDX-License-Identifier: Apache-2.0
// Runs a command as an engine with memory of its own does: command and reply are encoded and
// decoded by the ring's code, so anything that the code omits is missing at the other end.
#pragma once

#include <functional>

#include "fs/ops/command.hpp"

namespace warren {

/// Calls `run` with the decoded command; `reply` receives the decoded reply. Allocates nothing.
/// Replies Errc::invalid if the command cannot be encoded.
void carry_command(const ops::Command& sent, ops::Reply& reply,
                   const std::function<void(const ops::Command&, ops::Reply&)>& run);

}  // namespace warren
