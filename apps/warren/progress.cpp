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

Progress::~Progress() {
    if (!thread_.joinable()) return;
    {
        std::lock_guard lock(mutex_);
        done_ = true;
    }
    wake_.notify_all();
    thread_.join();
}

void Progress::run() {
    const auto start = std::chrono::steady_clock::now();
    auto pause = 1000ms;
    bool shown = false;
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, pause, [this] { return done_; })) {
        pause = 200ms;
        const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(
            std::chrono::steady_clock::now() - start);
        const u64 items = items_.load(std::memory_order_relaxed);
        const u64 bytes = bytes_.load(std::memory_order_relaxed);
        std::string line = what_ + ": ";
        if (items != 0) line += counted(items, "item", "items") + ", ";
        if (bytes != 0) line += long_size(bytes) + ", ";
        show_status(line + std::to_string(seconds.count()) + " s");
        shown = true;
    }
    if (shown) show_status("");
}

}  // namespace warren::cli
