// SPDX-License-Identifier: Apache-2.0
// Threads are started for each call: that costs some 20 us each, so there is one for every so many
// bytes. A machine that gives no more threads does the work with those there are.
#include "hash/workers.hpp"

#include <algorithm>
#include <system_error>
#include <thread>
#include <vector>

#include "base/processors.hpp"

namespace warren::hash {
namespace {

/// Below this a thread of its own takes longer to start than it saves.
constexpr u64 least_bytes_per_thread = 256 * kib;

}  // namespace

u32 threads_for(const Options& options, u64 bytes) {
    const u64 allowed = options.threads != 0 ? options.threads : usable_processors();
    return static_cast<u32>(std::clamp<u64>(bytes / least_bytes_per_thread, 1, allowed));
}

void run(u32 threads, const std::function<void()>& work) {
    std::vector<std::jthread> others;
    try {
        for (u32 i = 1; i < threads; ++i)
            others.emplace_back(work);
    } catch (const std::system_error&) {
        // The threads that did start share the work.
    }
    work();
}

}  // namespace warren::hash
