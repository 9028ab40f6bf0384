// SPDX-License-Identifier: Apache-2.0
// The manual pages and the completions for shells, made from the options' tables.
//
// Invariant: the same program writes the same bytes.
#pragma once

#include <string>

namespace warren::cli {

/// Writes man1/, man5/, man8/ and bash/, zsh/, fish/ into the folder, and makes it if it is not
/// there. False, with a complaint, if it cannot.
bool write_manual(const std::string& folder);

}  // namespace warren::cli
