// SPDX-License-Identifier: Apache-2.0
// The words of an expression of `warren find`, for its help page, manual page and completions.
#pragma once

#include <vector>

#include "apps/warren/arguments.hpp"

namespace warren::cli {

std::vector<Section> find_sections();

}  // namespace warren::cli
