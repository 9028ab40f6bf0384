// SPDX-License-Identifier: Apache-2.0
// What --help prints.
#pragma once

#include <string>

#include "apps/warren/arguments.hpp"

namespace warren::cli {

/// The help page of a program or command called `name`.
std::string help_page(const Page& page, const std::string& name);

}  // namespace warren::cli
