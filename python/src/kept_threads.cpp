// SPDX-License-Identifier: Apache-2.0
// The threads are never joined: at the end of the process they sleep.
#include "python/src/kept_threads.hpp"

#include <atomic>

#include "base/on_exit.hpp"

namespace warren::python {
namespace {

struct KeptThreads {
    std::atomic<bool> is_taken{false};
    Workers workers{0};
};

KeptThreads*& kept() {
    static KeptThreads* one = new KeptThreads;
    return one;
}

}  // namespace

void run_on_kept_threads(u32 threads, const Workers::Work& work) {
    if (threads == 1) return work(0);
    KeptThreads& all = *kept();
    // Acquire: pairs with the release below.
    if (all.is_taken.exchange(true, std::memory_order_acquire)) return run_once(threads, work);
    const OnExit give_back([&] { all.is_taken.store(false, std::memory_order_release); });
    all.workers.run([&](u32 worker) {
        if (threads == 0 || worker < threads) work(worker);
    });
}

void forget_kept_threads() {
    kept() = new KeptThreads;
}

}  // namespace warren::python
