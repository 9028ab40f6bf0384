// SPDX-License-Identifier: Apache-2.0
// Where the daemon of a mount logs errors: to stderr in the foreground, to the system's log once it
// has no terminal.
#pragma once

#include <string>

namespace warren::fuse {

enum class LogTarget : bool { stderr_stream, system };

/// Sets the target of log lines, initially stderr. libfuse's messages go there too.
void set_log_target(LogTarget target);

/// Writes one line.
void log_line(const std::string& text);

/// The last message of libfuse, without "fuse: " and line end; used as the reason of a failure.
std::string last_library_complaint();

}  // namespace warren::fuse
