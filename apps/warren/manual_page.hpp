// SPDX-License-Identifier: Apache-2.0
// Manual pages in the macros of man(7).
#pragma once

#include <string>

#include "apps/warren/commands.hpp"

namespace warren::cli {

/// warren(1).
std::string program_manual();
/// warren-COMMAND(1).
std::string command_manual(const Command& command);
/// The page in section 8 of a helper by which mount(8) or a similar program runs the command.
std::string helper_manual(const Command& command, const std::string& helper);
/// warren-format(5).
std::string format_manual();

}  // namespace warren::cli
