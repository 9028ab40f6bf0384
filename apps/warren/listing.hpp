// SPDX-License-Identifier: Apache-2.0
// How ls, stat, find and similar commands print modes, owners and times: like coreutils in the C
// locale.
#pragma once

#include <string>

#include "apps/warren/json.hpp"
#include "warren/volume.hpp"

namespace warren::cli {

/// "drwxr-xr-x".
std::string mode_text(u32 mode);

/// 'f', 'd', 'l', 'b', 'c', 'p', 's' as in find -type; '?' for none of these.
char type_letter(u32 mode);

/// "regular file", "directory", ... as in stat(1).
std::string type_name(u32 mode);

/// The name of a user or group, or the number if it has none.
std::string user_text(u32 user);
std::string group_text(u32 group);

/// "Jan  2 15:04", or with the year in place of the time if it is half a year or more away.
std::string short_time(i64 nanoseconds);

/// The same as find -ls prints it: with the time from 180 days ago until an hour ahead.
std::string short_time_of_find(i64 nanoseconds);

/// "Tue Jan  2 15:04:05.1234567890 2024", as find -printf %t.
std::string long_time_of_find(i64 nanoseconds);

/// "2024-01-02+15:04:05.1234567890", as find -printf %T+.
std::string joined_time_of_find(i64 nanoseconds);

/// "2024-01-02 15:04:05.123456789 +0000".
std::string full_time(i64 nanoseconds);

/// "1704207845.123456789".
std::string epoch_time(i64 nanoseconds);

/// Writes the attributes as members of the object that is open.
void add_attributes(Json& json, const Attributes& attributes);

}  // namespace warren::cli
