// SPDX-License-Identifier: Apache-2.0
// Threads for calls that work on all cores. They outlive the call: a thread takes some 20 us to
// start, and much longer until it can use a GPU.
#pragma once

#include "base/workers.hpp"

namespace warren::python {

/// Like run_once(), with threads that later calls use again. A call made while another runs, or by
/// its work, starts threads of its own.
void run_on_kept_threads(u32 threads, const Workers::Work& work);
/// Called in a forked process, which does not have the threads.
void forget_kept_threads();

}  // namespace warren::python
