// SPDX-License-Identifier: Apache-2.0
// The kernel tells in fusectl how many requests are not answered. Where it does not, or where other
// programs never let that be none, the order of the writes and the time between them tell.
#include "apps/fuse/cached_writes.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <thread>
#include <utility>

#include "apps/fuse/connection.hpp"

namespace warren::fuse {

namespace {

using std::chrono::steady_clock;

constexpr std::chrono::microseconds pause{200};
// Without a write for so long, the kernel has none in its queue: a thread that has ended one takes
// the next within microseconds.
constexpr std::chrono::milliseconds quiet_time{20};
// Without fusectl, writes that were queued so long ago have begun.
constexpr std::chrono::seconds patience{10};

/// How many requests of the connection the daemon has not answered. False if the kernel does not
/// tell.
bool read_waiting(const Descriptor& file, u64& count) {
    std::array<char, 24> text;
    const ssize_t length = file ? ::pread(file.get(), text.data(), text.size(), 0) : -1;
    return length > 0 &&
           std::from_chars(text.data(), text.data() + length, count).ec == std::errc{};
}

}  // namespace

CachedWrites::Running::Running(CachedWrites& writes) : writes_(writes) {
    for (;;) {
        turn_ = writes_.turn_.load() % 2;
        ++writes_.running_[turn_];
        if (writes_.turn_.load() % 2 == turn_) break;
        --writes_.running_[turn_];
    }
    ++writes_.begun_;  // last: a thread that counts it must find it running
}

CachedWrites::Running::~Running() {
    --writes_.running_[turn_];
}

void CachedWrites::wait(u32 device_minor) {
    const Descriptor file = open_connection_file(device_minor, "waiting", O_RDONLY);
    u64 queued = 0;
    const bool is_told = read_waiting(file, queued);
    const u64 begun_before = begun_.load();  // after `queued`, so that no write counts too much
    const auto begin = steady_clock::now();
    auto last_write = begin;
    for (u64 begun = begun_before;; std::this_thread::sleep_for(pause)) {
        u64 waiting = 0;
        if (read_waiting(file, waiting) && waiting == 0) return;
        const auto now = steady_clock::now();
        const u64 before = std::exchange(begun, begun_.load());
        if (before != begun || running() > 0) last_write = now;
        const bool have_begun = is_told ? begun - begun_before >= queued : now - begin >= patience;
        if (have_begun || now - last_write >= quiet_time) break;
    }
    wait_for_running();
}

/// Waits for the writes that run now, but not for later ones.
void CachedWrites::wait_for_running() {
    const std::lock_guard lock(turning_);
    const u32 ending = turn_.fetch_add(1) % 2;
    while (running_[ending].load() > 0)
        std::this_thread::sleep_for(pause);
}

}  // namespace warren::fuse
