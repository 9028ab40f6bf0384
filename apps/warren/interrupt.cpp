// SPDX-License-Identifier: Apache-2.0
// The handler only records the signal; SA_RESETHAND gives a second one its default effect.
#include "apps/warren/interrupt.hpp"

#include <atomic>
#include <csignal>
#include <initializer_list>

namespace warren::cli {

namespace {

std::atomic<int> signal_seen{0};

extern "C" void note_signal(int number) {
    signal_seen.store(number, std::memory_order_relaxed);
}

}  // namespace

void catch_interrupts() {
    struct sigaction action {};
    action.sa_handler = note_signal;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
    for (const int number : {SIGINT, SIGTERM, SIGHUP})
        ::sigaction(number, &action, nullptr);
}

bool interrupted() {
    return signal_seen.load(std::memory_order_relaxed) != 0;
}

int interrupted_exit() {
    return 128 + signal_seen.load(std::memory_order_relaxed);
}

}  // namespace warren::cli
