// SPDX-License-Identifier: Apache-2.0
// At rest is a mount whose kernel and clients have asked for nothing from one look to the next, and
// of which all is durable: it is not for this thread to say when something is committed.
#include "apps/fuse/memory_keeper.hpp"

#include <malloc.h>

#include <chrono>

#include "apps/fuse/device.hpp"

namespace warren::fuse {

namespace {

constexpr std::chrono::seconds between_looks{3};
constexpr u32 looks_when_busy = 20;  // between two times that memory is given back
// Then the last commit is long enough ago for the volume to give back as well.
constexpr u32 looks_at_rest = 2;

}  // namespace

MemoryKeeper::MemoryKeeper(MountState& mount, bool may_commit)
    : mount_(mount), may_commit_(may_commit), thread_([this] { run(); }) {}

MemoryKeeper::~MemoryKeeper() {
    {
        std::lock_guard lock(mutex_);
        ending_ = true;
    }
    ending_changed_.notify_all();
    thread_.join();
}

void MemoryKeeper::give_back_at_rest() {
    const bool is_read_only = mount_.read_only.load(std::memory_order_relaxed);
    // The log is told if it fails.
    if (may_commit_ && !is_read_only) static_cast<void>(mount_.sync());
    mount_.nodes.shrink();
}

void MemoryKeeper::run() {
    u64 asked = 0;        // by kernel and clients, up to the last look
    bool is_due = false;  // something was asked since memory was given back
    u32 rest = 0;         // looks in a row at a mount at rest
    u32 busy = 0;         // looks since memory was given back
    std::unique_lock lock(mutex_);
    while (!ending_changed_.wait_for(lock, between_looks, [&] { return ending_; })) {
        const u64 now = requests_read() + mount_.verbs_served.load(std::memory_order_relaxed);
        const bool is_new = now != asked;
        asked = now;
        is_due = is_due || is_new;
        if (!is_due) continue;
        ++busy;
        rest = is_new || mount_.volume.access()->has_unsaved() ? 0 : rest + 1;
        if (rest < looks_at_rest && busy < looks_when_busy) continue;
        lock.unlock();
        if (rest >= looks_at_rest) give_back_at_rest();
        ::malloc_trim(0);
        lock.lock();
        is_due = rest < looks_at_rest;
        busy = 0;
    }
}

}  // namespace warren::fuse
