// SPDX-License-Identifier: Apache-2.0
// An engine without work stops polling, and the next command wakes it. Neither side may miss the
// other: the client writes its command, fences and reads `parked`; the engine sets `parked`, fences
// and polls all rings once more. One of the two sees what the other wrote.
//
// Invariant: a wait for a wake-up has a timeout, so a lost wake-up costs only time.
#pragma once

#include "fs/ring/ring.hpp"

namespace warren::ring {

/// Signals commands in ring `index` to the engine, and wakes it if it is parked; returns whether it
/// was. Requires: one caller at a time for a ring.
bool ring_doorbell(Doorbell& doorbell, const ServerStatus& status, u32 index);

/// The engine's wake counter, to be read before begin_parking().
u32 wakes_seen(const Doorbell& doorbell);

/// Announces that the doorbell is not polled. The caller then polls all rings once more, and calls
/// end_parking() if there is a command after all.
void begin_parking(ServerStatus& status);
void end_parking(ServerStatus& status);

/// Waits until the wake counter differs from `seen`, or for `milliseconds`.
void wait_for_wake(const Doorbell& doorbell, u32 seen, u32 milliseconds);

/// Wakes a waiting engine for another request of its own process.
void wake(Doorbell& doorbell);

}  // namespace warren::ring
