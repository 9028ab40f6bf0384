// SPDX-License-Identifier: Apache-2.0
// Names in a form that can be shown to users. A name may contain any byte but '/' and NUL, and may
// come from an untrusted source: a terminal would obey an escape sequence in it, and a newline
// would start a new line of output.
//
// A character is printable if the locale of the environment (LC_CTYPE) says so of UTF-8; in a
// locale with another encoding only ASCII is printable.
#pragma once

#include <string>
#include <string_view>

namespace warren {

/// The name in quotes that a shell removes, with $'...' for characters that are not printable.
std::string shell_quoted(std::string_view name);

/// The name itself if a shell would take it as one word without quotes, else shell_quoted().
std::string quoted_if_needed(std::string_view name);

/// The name with a '?' for each character that is not printable.
std::string masked(std::string_view name);

}  // namespace warren
