// SPDX-License-Identifier: Apache-2.0
// Scripts with which shells complete commands, options and their values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/warren/commands.hpp"

namespace warren::cli {

/// An option, or a word of a find expression, as the shells complete it.
struct CompletedWord {
    std::vector<std::string> spellings;  // "-s", "--size"
    std::string help;
    ValueKind kind = ValueKind::none;
    bool is_optional = false;  // the value is optional
    std::string value;         // the placeholder on the help page, such as SIZE
    std::string choices;       // separated by blanks
};

/// Everything on the help page that begins with a dash.
std::vector<CompletedWord> completed_words(const Page& page);

std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

}  // namespace warren::cli
