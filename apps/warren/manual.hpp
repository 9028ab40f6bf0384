// SPDX-License-Identifier: Apache-2.0
// The manual pages and the shell completions, generated from the option tables.
//
// Invariant: the same program generates the same bytes.
#pragma once

#include <string>

namespace warren::cli {

/// Writes man1/, man5/, man8/ and bash/, zsh/, fish/ into the folder, which is created if
/// necessary. Returns false, after an error message, on failure.
bool write_manual(const std::string& folder);

}  // namespace warren::cli
