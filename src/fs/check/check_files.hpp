// SPDX-License-Identifier: Apache-2.0
// Checks inodes that are not directories: contents, link target, attributes, and the counts of
// blocks and names.
#pragma once

#include "fs/check/check_context.hpp"

namespace warren::check {

/// Requires: scan_directories() and find_lost() have run, so all names are known.
void scan_files(Context& context);

}  // namespace warren::check
