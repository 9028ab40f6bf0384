// SPDX-License-Identifier: Apache-2.0
// Threads for calls that work on all cores. They outlive the call: a thread takes some 20 us to
// start, and much longer until it can use a GPU.
#pragma once

#include "base/workers.hpp"

namespace warren::python {

/// Like run_once(), with threads that later calls use again. A call made while another runs, or by
/// its work, starts threads of its own.
void run_on_kept_threads(u32 threads, const Workers::Work& work);
/// Calls work(first, last) for ranges of `step` of all items on all cores: for what takes
/// milliseconds, so that no signal need be handled meanwhile.
template <class Work>
void briefly_on_all_cores(u64 count, u64 step, const Work& work) {
    Counter counter(count, step);
    run_on_kept_threads(count <= step ? 1 : 0, [&](u32) {
        for (u64 first = 0, last = 0; counter.take(first, last);)
            work(first, last);
    });
}

/// Called in a forked process, which does not have the threads.
void forget_kept_threads();

}  // namespace warren::python
