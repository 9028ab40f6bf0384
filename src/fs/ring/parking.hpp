// SPDX-License-Identifier: Apache-2.0
// An idle engine stops polling, and the next command wakes it. So that no command is missed, the
// client writes its command, then a full fence, then reads `parked`; the engine sets `parked`, then
// a full fence, then polls the ring once more. At least one of the two sees the other's write.
//
// Invariant: a wait for a wake-up has a timeout, so a lost wake-up costs only time.
#pragma once

#include "fs/ring/ring.hpp"

namespace warren::ring {

/// Wakes the engine if it is parked. The client calls it after it has written commands.
void ring_doorbell(Doorbell& doorbell, const ServerStatus& status);

/// The wake counter. The engine reads it before begin_parking() and passes it to wait_for_wake().
u32 wakes_seen(const Doorbell& doorbell);

/// Announces that the engine no longer polls the ring. The caller then polls it once more, and
/// calls end_parking() if it finds a command.
void begin_parking(ServerStatus& status);
void end_parking(ServerStatus& status);

/// Waits until the wake counter differs from `seen`, or for `milliseconds`.
void wait_for_wake(const Doorbell& doorbell, u32 seen, u32 milliseconds);

/// Wakes an engine that waits; also for requests of its own process that are no commands.
void wake(Doorbell& doorbell);

}  // namespace warren::ring
