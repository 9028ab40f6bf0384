// SPDX-License-Identifier: Apache-2.0
// Names as they may be shown to people. A name is any bytes but '/' and NUL, and may come from a
// stranger: a terminal would obey an escape sequence in it, and a newline would start a new line.
//
// What is printable is what the locale of the environment (LC_CTYPE) says of UTF-8; in a locale of
// another encoding only ASCII is.
#pragma once

#include <string>
#include <string_view>

namespace warren {

/// In quotes that a shell undoes, with $'...' for what is not printable.
std::string shell_quoted(std::string_view name);

/// The same, but as it is where a shell would take it as one word without quotes.
std::string quoted_if_needed(std::string_view name);

/// With a '?' for each character that is not printable.
std::string masked(std::string_view name);

}  // namespace warren
