// SPDX-License-Identifier: Apache-2.0
// A thread of its own writes the line, so that a call that blocks for long shows the time passing.
#include "apps/warren/progress.hpp"

#include <unistd.h>

#include <chrono>

#include "apps/warren/messages.hpp"
#include "apps/warren/units.hpp"

namespace warren::cli {

using namespace std::chrono_literals;

Progress::Progress(std::string what) : what_(std::move(what)) {
    if (isatty(STDERR_FILENO) == 1) thread_ = std::thread([this] { run(); });
}

Progress::Progress(std::string what, const walk::Meter& meter)
    : what_(std::move(what)), meter_(&meter) {
    if (isatty(STDERR_FILENO) == 1) thread_ = std::thread([this] { run(); });
}

Progress::~Progress() {
    if (!thread_.joinable()) return;
    {
        std::lock_guard lock(mutex_);
        done_ = true;
    }
    wake_.notify_all();
    thread_.join();
}

/// What has been done so far, with a comma behind it.
std::string Progress::counts(double seconds) const {
    std::string line;
    if (meter_ != nullptr) {
        const u64 entries = meter_->entries.load(std::memory_order_relaxed);
        line = counted(entries, "entry", "entries") + ", ";
        line += grouped(static_cast<u64>(static_cast<double>(entries) / seconds)) + "/s, ";
        const u64 queued = meter_->queued.load(std::memory_order_relaxed);
        if (queued != 0) line += counted(queued, "directory waits", "directories wait") + ", ";
        return line;
    }
    const u64 items = items_.load(std::memory_order_relaxed);
    const u64 bytes = bytes_.load(std::memory_order_relaxed);
    if (items != 0) line += counted(items, "item", "items") + ", ";
    if (bytes != 0) line += long_size(bytes) + ", ";
    return line;
}

void Progress::run() {
    const auto start = std::chrono::steady_clock::now();
    auto pause = 1000ms;
    bool shown = false;
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, pause, [this] { return done_; })) {
        pause = 200ms;
        const std::chrono::duration<double> past = std::chrono::steady_clock::now() - start;
        const auto seconds = static_cast<u64>(past.count());
        show_status(what_ + ": " + counts(past.count()) + std::to_string(seconds) + " s");
        shown = true;
    }
    if (shown) show_status("");
}

}  // namespace warren::cli
