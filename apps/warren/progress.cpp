// SPDX-License-Identifier: Apache-2.0
// A separate thread writes the line, so that the elapsed time advances even while a call blocks.
#include "apps/warren/progress.hpp"

#include <unistd.h>

#include <chrono>
#include <map>
#include <mutex>

#include "apps/warren/messages.hpp"
#include "apps/warren/ranks.hpp"
#include "apps/warren/units.hpp"
#include "base/wait_for_stop.hpp"
#include "walk/bytes.hpp"

namespace warren::cli {

using namespace std::chrono_literals;

namespace {

bool always = false;

std::mutex ranks_mutex;  // guards ranks_entries, ranks_queued
std::map<u32, u64> ranks_entries;
std::map<u32, u64> ranks_queued;

bool is_terminal() {
    return isatty(STDERR_FILENO) == 1;
}

}  // namespace

Progress::Progress(std::string what) : what_(std::move(what)) {
    if (rank_number() == 0) start();
}

Progress::Progress(std::string what, const walk::Meter& meter)
    : what_(std::move(what)), meter_(&meter) {
    start();
}

void Progress::start() {
    {
        std::lock_guard lock(ranks_mutex);
        ranks_entries.clear();
        ranks_queued.clear();
    }
    if (!always && !is_terminal()) return;
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void Progress::show_always() {
    always = true;
}

void Progress::receive(u32 rank, std::string_view bytes) {
    const auto counts = walk::ByteReader(bytes).get<Counts>();
    std::lock_guard lock(ranks_mutex);
    ranks_entries[rank] = counts.entries;
    ranks_queued[rank] = counts.queued;
}

Progress::Counts Progress::counts_of_all_ranks() const {
    Counts sum{meter_->entries.load(std::memory_order_relaxed),
               meter_->queued.load(std::memory_order_relaxed)};
    std::lock_guard lock(ranks_mutex);
    for (const auto& [rank, entries] : ranks_entries)
        sum.entries += entries;
    for (const auto& [rank, queued] : ranks_queued)
        sum.queued += queued;
    return sum;
}

/// The counts so far, followed by a comma.
std::string Progress::counts(double seconds) const {
    std::string line;
    if (meter_ != nullptr) {
        const auto [entries, queued] = counts_of_all_ranks();
        line = counted(entries, "entry", "entries") + ", ";
        line += grouped(static_cast<u64>(static_cast<double>(entries) / seconds)) + "/s, ";
        if (queued != 0) line += counted(queued, "directory waits", "directories wait") + ", ";
        return line;
    }
    const u64 items = items_.load(std::memory_order_relaxed);
    const u64 bytes = bytes_.load(std::memory_order_relaxed);
    if (items != 0) line += counted(items, "item", "items") + ", ";
    if (bytes != 0) line += long_size(bytes) + ", ";
    return line;
}

void Progress::show(double seconds) const {
    if (rank_number() != 0) {
        walk::ByteWriter writer;
        writer.put(Counts{meter_->entries.load(std::memory_order_relaxed),
                          meter_->queued.load(std::memory_order_relaxed)});
        return send_to_rank_0(RankMessage::progress, writer.bytes());
    }
    const std::string line =
        what_ + ": " + counts(seconds) + std::to_string(static_cast<u64>(seconds)) + " s";
    if (is_terminal()) return show_status(line);
    remark({program(), ": ", line});
}

void Progress::run(const std::stop_token& stop) const {
    const auto start = std::chrono::steady_clock::now();
    auto pause = 1000ms;
    bool shown = false;
    while (!wait_for_stop(stop, pause)) {
        pause = rank_number() != 0 ? 1000ms : is_terminal() ? 200ms : 5000ms;
        const std::chrono::duration<double> past = std::chrono::steady_clock::now() - start;
        show(past.count());
        shown = true;
    }
    if (shown && is_terminal()) show_status("");
}

}  // namespace warren::cli
