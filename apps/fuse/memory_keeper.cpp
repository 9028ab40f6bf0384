// SPDX-License-Identifier: Apache-2.0
// A mount is idle if the kernel and clients have sent few requests since the last check, and all
// changes are durable: this thread does not decide when to commit.
#include "apps/fuse/memory_keeper.hpp"

#include <malloc.h>

#include <chrono>
#include <functional>

#include "apps/fuse/device.hpp"
#include "base/wait_for_stop.hpp"

namespace warren::fuse {

namespace {

constexpr std::chrono::seconds between_looks{3};
// Fewer requests between two checks leave a mount idle: programs that watch it, such as `df` in a
// loop, go on sending some.
constexpr u64 requests_when_busy = 32;
constexpr u32 looks_when_busy = 20;  // checks between two times that memory is returned
// By then the last commit is old enough for the volume to release memory as well.
constexpr u32 looks_at_rest = 2;

void give_back_at_rest(MountState& mount, bool may_commit) {
    const bool is_read_only = mount.read_only.load(std::memory_order_relaxed);
    // A failure is logged by sync().
    if (may_commit && !is_read_only) static_cast<void>(mount.sync());
    mount.nodes.shrink();
}

void keep_memory_low(const std::stop_token& stop, MountState& mount, bool may_commit) {
    u64 asked = 0;        // requests of kernel and clients, up to the last check
    bool is_due = false;  // there were requests since memory was returned
    u32 rest = 0;         // consecutive checks of an idle mount
    u32 busy = 0;         // checks since memory was returned
    while (!wait_for_stop(stop, between_looks)) {
        const u64 now = requests_read() + mount.verbs_served.load(std::memory_order_relaxed);
        const bool is_used = now - asked >= requests_when_busy;
        is_due = is_due || now != asked;
        asked = now;
        if (!is_due) continue;
        ++busy;
        rest = is_used || mount.volume.access()->has_unsaved() ? 0 : rest + 1;
        if (rest < looks_at_rest && busy < looks_when_busy) continue;
        if (rest >= looks_at_rest) give_back_at_rest(mount, may_commit);
        ::malloc_trim(0);
        is_due = rest < looks_at_rest;
        busy = 0;
    }
}

}  // namespace

std::jthread start_memory_keeper(MountState& mount, bool may_commit) {
    return std::jthread(keep_memory_low, std::ref(mount), may_commit);
}

}  // namespace warren::fuse
