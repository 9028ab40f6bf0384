// SPDX-License-Identifier: Apache-2.0
// Where the daemon of a mount tells what goes wrong: stderr while it runs in the foreground, the
// system's log once it has no terminal.
#pragma once

#include <string>

namespace warren::fuse {

enum class LogTarget : bool { stderr_stream, system };

/// Sets where lines go; stderr until then. libfuse's own complaints go there too.
void set_log_target(LogTarget target);

/// Writes one line.
void log_line(const std::string& text);

/// The last complaint of libfuse, without its "fuse: " and line end; for the reason of a failure.
std::string last_library_complaint();

}  // namespace warren::fuse
