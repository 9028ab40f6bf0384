// SPDX-License-Identifier: Apache-2.0
// Parses times as users type them after -newermt: the common forms that date(1) accepts.
#pragma once

#include <optional>
#include <string_view>

#include "warren/types.hpp"

namespace warren::cli {

/// "2024-01-02", "2024-01-02 15:04[:05[.5]] [Z|+02:00]" (also with a T), "15:04", "@1704207845.5",
/// "now", "today", "yesterday", "3 days ago", "-2 hours". Returns nanoseconds since 1970, or
/// nullopt for any other text. `now` is in the same unit; a time without a zone is local.
std::optional<i64> parse_time(std::string_view text, i64 now);

}  // namespace warren::cli
