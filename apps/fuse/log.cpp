// SPDX-License-Identifier: Apache-2.0
// libfuse prints through a function that a program may replace. Its messages are kept as the reason
// why a mount failed, and logged like the daemon's own lines.
#include "apps/fuse/log.hpp"

#include <syslog.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <mutex>

#include "apps/fuse/library.hpp"

namespace warren::fuse {

namespace {

std::atomic<LogTarget> log_target{LogTarget::stderr_stream};
std::mutex complaint_mutex;
std::string complaint;

bool is_system_log() {
    return log_target.load(std::memory_order_relaxed) == LogTarget::system;
}

void take_library_line(fuse_log_level level, const char* format, va_list values) {
    std::array<char, 1024> line;
    if (std::vsnprintf(line.data(), line.size(), format, values) < 0) return;
    std::string text(line.data());
    while (text.ends_with('\n'))
        text.pop_back();
    if (text.starts_with("fuse: ")) text.erase(0, 6);
    {
        std::lock_guard lock(complaint_mutex);
        complaint = text;
    }
    if (level <= FUSE_LOG_WARNING && is_system_log()) log_line("libfuse: " + text);
}

}  // namespace

void set_log_target(LogTarget target) {
    if (target == LogTarget::system) ::openlog("warren", LOG_PID, LOG_DAEMON);
    log_target.store(target, std::memory_order_relaxed);
    fuse_set_log_func(take_library_line);
}

void log_line(const std::string& text) {
    if (is_system_log()) {
        ::syslog(LOG_ERR, "%s", text.c_str());
    } else {
        std::fprintf(stderr, "warren: %s\n", text.c_str());
    }
}

std::string last_library_complaint() {
    std::lock_guard lock(complaint_mutex);
    return complaint;
}

}  // namespace warren::fuse
