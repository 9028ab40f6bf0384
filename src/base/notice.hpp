// SPDX-License-Identifier: Apache-2.0
// One-line messages about background work, which has no caller to return an error to. There is one
// sink for the whole process; a daemon sends the lines to its log.
#pragma once

#include <functional>
#include <string>

namespace warren {

/// Called on any thread. It must not call notice(), and may throw std::bad_alloc.
using NoticeSink = std::function<void(const std::string& line)>;

/// Sets where lines go; an empty sink is standard error, which is the default.
void set_notice_sink(NoticeSink sink);

void notice(const std::string& line);

/// Passes the line to `sink`, or to notice() if that is empty.
inline void notice_or(const NoticeSink& sink, const std::string& line) {
    sink ? sink(line) : notice(line);
}

}  // namespace warren
