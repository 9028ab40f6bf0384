// SPDX-License-Identifier: Apache-2.0
// Scripts by which shells complete commands, options and their values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/warren/commands.hpp"

namespace warren::cli {

/// An option, or a word of an expression, as it can be completed.
struct CompletedWord {
    std::vector<std::string> spellings;  // "-s", "--size"
    std::string help;
    ValueKind kind = ValueKind::none;
    bool is_optional = false;  // the value may be left out
    std::string value;         // what the pages call it
    std::string choices;       // with blanks between them
};

/// What --help lists and begins with a dash.
std::vector<CompletedWord> completed_words(const Page& page);

std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

}  // namespace warren::cli
