// SPDX-License-Identifier: Apache-2.0
// The threads are never joined: at the end of the process they sleep.
#include "python/src/crew.hpp"

#include <atomic>

namespace warren::python {
namespace {

struct Crew {
    std::atomic<bool> is_taken{false};
    Workers workers{0};
};

Crew*& crew() {
    static Crew* one = new Crew;
    return one;
}

}  // namespace

void run_on_crew(u32 threads, const Workers::Work& work) {
    if (threads == 1) return work(0);
    Crew& all = *crew();
    // Acquire: pairs with the release below.
    if (all.is_taken.exchange(true, std::memory_order_acquire)) return run_once(threads, work);
    struct Return {
        Crew& crew;
        ~Return() { crew.is_taken.store(false, std::memory_order_release); }
    } const returned{all};
    all.workers.run([&](u32 worker) {
        if (threads == 0 || worker < threads) work(worker);
    });
}

void forget_crew() {
    crew() = new Crew;
}

}  // namespace warren::python
