// SPDX-License-Identifier: Apache-2.0
// The engine waits on a futex in the shared doorbell page, which works between processes.
//
// Invariant: see fs/ring/parking.hpp.
#include "fs/ring/parking.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace warren::ring {

void ring_doorbell(Doorbell& doorbell, const ServerStatus& status) {
    hd::atomic_thread_fence(hd::memory_order_seq_cst);  // pairs with the one in begin_parking()
    const bool is_parked =
        system_atomic<u32>(const_cast<u32&>(status.parked)).load(hd::memory_order_relaxed) != 0;
    if (is_parked) wake(doorbell);
}

u32 wakes_seen(const Doorbell& doorbell) {
    // Acquire: pairs with the release in wake().
    return system_atomic<u32>(const_cast<u32&>(doorbell.wakes)).load(hd::memory_order_acquire);
}

void begin_parking(ServerStatus& status) {
    system_atomic<u32>(status.parked).store(1, hd::memory_order_relaxed);
    hd::atomic_thread_fence(hd::memory_order_seq_cst);  // pairs with the one in ring_doorbell()
}

void end_parking(ServerStatus& status) {
    system_atomic<u32>(status.parked).store(0, hd::memory_order_relaxed);
}

void wait_for_wake(const Doorbell& doorbell, u32 seen, u32 milliseconds) {
    timespec time{};
    time.tv_sec = milliseconds / 1000;
    time.tv_nsec = static_cast<long>(milliseconds % 1000) * 1'000'000;
    syscall(SYS_futex, &doorbell.wakes, FUTEX_WAIT, seen, &time, nullptr, 0);
}

void wake(Doorbell& doorbell) {
    // Release: pairs with the acquire in wakes_seen().
    system_atomic<u32>(doorbell.wakes).fetch_add(1, hd::memory_order_release);
    syscall(SYS_futex, &doorbell.wakes, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

}  // namespace warren::ring
