// SPDX-License-Identifier: Apache-2.0
// One-line messages about background work, where no caller waits for an answer. There is one sink
// for the whole process, which a daemon sends to its log.
#pragma once

#include <functional>
#include <string>

namespace warren {

/// Called from any thread; it must not call notice(), and may throw std::bad_alloc.
using NoticeSink = std::function<void(const std::string& line)>;

/// Where lines go from now on; an empty sink is the standard error stream, as at the start.
void set_notice_sink(NoticeSink sink);

void notice(const std::string& line);

}  // namespace warren
