// SPDX-License-Identifier: Apache-2.0
// The answer may be up to 50 ms old. A process that opens a file in that time, through the page
// cache, is told of a loss like those that opened it earlier: see LossNotices.
#include "apps/fuse/full_watch.hpp"

#include <time.h>

namespace warren::fuse {

namespace {

constexpr i64 look_every_ns = 50'000'000;
constexpr u64 block_bytes = 4096;

i64 coarse_nanoseconds() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return i64{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

bool FullWatch::is_nearly_full(const Volume& volume) {
    const u64 credit = credit_bytes_.load(std::memory_order_relaxed);
    if (credit == 0) return false;
    const i64 now = coarse_nanoseconds();
    i64 next = next_look_.load(std::memory_order_relaxed);
    if (now >= next &&
        next_look_.compare_exchange_strong(next, now + look_every_ns, std::memory_order_relaxed)) {
        const u64 available = volume.statistics().blocks_available * block_bytes;
        answer_.store(available < credit, std::memory_order_relaxed);
    }
    return answer_.load(std::memory_order_relaxed);
}

}  // namespace warren::fuse
